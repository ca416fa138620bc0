"""What every backend must do. A backend's tests subclass these, and say how it is opened.

`Conformance` holds for all backends, the one in memory included. `Sealed` holds for those whose sandboxes run programs:
it looks at the seal from inside, with nothing but a shell and what is in every system.
"""

import io
import os
import resource
import select
import signal
import tarfile
import tempfile
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from belljar.backends.interface import (
    Backend,
    GoneError,
    PathError,
    PausedError,
    Process,
    SandboxStatus,
    SpecError,
    State,
    Streams,
)
from belljar.gateway.attachment import Gateways
from belljar.gateway.service import Acknowledgement
from belljar.gateway.workers.supervisor import Workers
from belljar.policy import Mode, Policy, resolve
from belljar.sandbox.spec import Bind, Command, SandboxSpec

NOTHING = resolve(Policy(Mode.BLOCK_ALL))
"""May be reached."""

PATIENCE = 60
A_MOMENT = 0.2
"""Long enough for what should not happen to be noticed; nothing fails if it is too short."""

SIGNALS_OF_LIBC = 0b11 << 31
"""32 and 33, which the C library keeps to itself: whether they are ignored depends on who started the tests."""


class Done(NamedTuple):
    code: int
    out: str
    err: str = ""


class Started:
    """A command whose streams are pipes."""

    def __init__(self, backend: Backend, sandbox: str, command: Command) -> None:
        (stdin, self.stdin), (self.stdout, stdout), (self.stderr, stderr) = os.pipe(), os.pipe(), os.pipe()
        try:
            self.process: Process = backend.start(sandbox, command, Streams(stdin, stdout, stderr))
        except BaseException:
            self._close(self.stdin, self.stdout, self.stderr)
            raise
        finally:
            self._close(stdin, stdout, stderr)

    def write(self, content: bytes) -> None:
        os.write(self.stdin, content)

    def read(self) -> bytes:
        assert select.select([self.stdout], [], [], PATIENCE)[0], "the command says nothing"
        return os.read(self.stdout, 65536)

    def is_silent(self) -> bool:
        return not select.select([self.stdout], [], [], A_MOMENT)[0]

    def finish(self) -> Done:
        self._close(self.stdin)
        self.stdin = -1
        out, err = (self._rest(stream) for stream in (self.stdout, self.stderr))
        return Done(self.process.wait(PATIENCE), out, err)

    def close(self) -> None:
        self._close(self.stdin, self.stdout, self.stderr)
        self.process.close()

    @staticmethod
    def _rest(stream: int) -> str:
        with os.fdopen(os.dup(stream), "rb") as file:
            return file.read().decode()

    @staticmethod
    def _close(*descriptors: int) -> None:
        for descriptor in descriptors:
            if descriptor >= 0:
                os.close(descriptor)


@contextmanager
def started(backend: Backend, sandbox: str, *arguments: str, **options) -> Iterator[Started]:
    command = Started(backend, sandbox, Command(arguments, **options))
    try:
        yield command
    finally:
        command.close()


def run(backend: Backend, sandbox: str, *arguments: str, **options) -> Done:
    with started(backend, sandbox, *arguments, **options) as command:
        return command.finish()


def shell(backend: Backend, sandbox: str, script: str) -> str:
    return run(backend, sandbox, "sh", "-c", script).out


def tree(entries) -> bytes:
    """Return an archive of files, by their names, or of entries that are more than that."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
            else:
                for field, value in content.items():
                    setattr(entry, field, value)
                archive.addfile(entry)
    return packed.getvalue()


def put(backend: Backend, sandbox: str, path: str, archive: bytes) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.flush()
        file.seek(0)
        backend.put_tree(sandbox, path, file.fileno())


def get(backend: Backend, sandbox: str, path: str, *, names=(".",), limit: int = 1 << 30) -> bytes:
    with tempfile.TemporaryFile() as file:
        backend.get_tree(sandbox, path, file.fileno(), names=names, limit=limit)
        file.seek(0)
        return file.read()


def entries(archive: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        return {entry.name: entry for entry in opened}


def contents(archive: bytes) -> dict[str, bytes]:
    """Return the files in an archive."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        files = ((entry.name, opened.extractfile(entry)) for entry in opened if entry.isreg())
        return {name: file.read() for name, file in files if file is not None}


class Conformance:
    """What holds for every backend."""

    spec = SandboxSpec()
    """A subclass may say more: an image, for example."""

    @pytest.fixture
    def open_backend(self) -> Callable[[], Backend]:
        """Override this: what opens the backend, and opens it again to find what is there."""
        raise NotImplementedError

    @pytest.fixture
    def backend(self, open_backend):
        backend = open_backend()
        yield backend
        for found in backend.sandboxes():
            backend.destroy(found.sandbox)
        backend.close()

    @pytest.fixture
    def jar(self, backend):
        """A sandbox whose doors nobody serves."""
        listeners = backend.create("jar", self.spec)
        yield "jar"
        listeners.close()

    def test_output_and_exit_code_are_the_commands(self, backend, jar):
        assert run(backend, jar, "echo", "a", "b c") == Done(0, "a b c\n")
        assert run(backend, jar, "false").code == 1

    def test_input_reaches_the_command_while_it_runs(self, backend, jar):
        with started(backend, jar, "cat") as cat:
            for line in (b"one\n", b"two\n"):
                cat.write(line)
                assert cat.read() == line
            assert cat.finish() == Done(0, "")

    def test_no_such_program(self, backend, jar):
        done = run(backend, jar, "no-such-program")
        assert done.code == 127
        assert "no-such-program" in done.err

    def test_a_command_that_cannot_be(self, backend, jar):
        for arguments in ((), ("a\0b",)):
            with pytest.raises(SpecError):
                run(backend, jar, *arguments)

    def test_variables_of_the_sandbox_and_of_the_command(self, backend):
        backend.create("jar", replace(self.spec, environment={"ONE": "sandbox", "TWO": "sandbox"})).close()
        out = run(backend, "jar", "env", environment={"TWO": "command=2"}).out.splitlines()
        assert {"ONE=sandbox", "TWO=command=2", "BELLJAR=1"} <= set(out)

    def test_the_directory_of_a_command(self, backend, jar):
        assert run(backend, jar, "pwd").out == "/workspace\n"
        assert run(backend, jar, "pwd", workdir=Path("/tmp")).out == "/tmp\n"

    def test_the_empty_directory_is_where_it_is_asked_for(self, backend):
        place = Path("/home/somewhere/work/project")
        backend.create("jar", replace(self.spec, scratch=place)).close()
        backend.put_file("jar", "file", b"1")
        backend.adopt("jar").close()
        assert run(backend, "jar", "pwd").out == f"{place}\n"
        assert backend.get_file("jar", f"{place}/file") == b"1"
        assert list(entries(get(backend, "jar", str(place)))) == ["file"]

    def test_a_command_that_ends_otherwise_has_not_run_out_of_memory(self, backend, jar):
        with started(backend, jar, "false") as command:
            assert command.finish().code == 1
            assert not command.process.out_of_memory()

    def test_a_signal_ends_a_command(self, backend, jar):
        with started(backend, jar, "sleep", "1000") as sleep:
            with pytest.raises(TimeoutError):
                sleep.process.wait(0)
            sleep.process.signal(signal.SIGTERM)
            assert sleep.process.wait(PATIENCE) == 128 + signal.SIGTERM
            assert sleep.process.wait() == 128 + signal.SIGTERM
            sleep.process.signal(signal.SIGTERM)  # too late, and no error

    def test_the_end_of_a_command_can_be_waited_for_with_others(self, backend, jar):
        with started(backend, jar, "true") as command:
            assert select.select([command.process], [], [], PATIENCE)[0]
            assert command.process.wait(0) == 0

    def test_commands_run_side_by_side(self, backend, jar):
        with started(backend, jar, "cat") as one, started(backend, jar, "cat") as other:
            one.write(b"1")
            other.write(b"2")
            assert (other.read(), one.read()) == (b"2", b"1")

    def test_files_go_in_and_out(self, backend, jar):
        content = bytes(range(256)) * 4096
        backend.put_file(jar, "made/on/the/way", content)
        assert backend.get_file(jar, "made/on/the/way") == content
        assert backend.get_file(jar, "/workspace/made/on/the/way") == content
        backend.put_file(jar, "made/on/the/way", b"shorter")
        assert backend.get_file(jar, "made/on/the/way", limit=7) == b"shorter"

    @pytest.mark.parametrize("path", ["not-there", "directory", "/usr/bin/new", "nul\0"])
    def test_files_that_cannot_be(self, backend, jar, path):
        backend.put_file(jar, "directory/file", b"")
        with pytest.raises(PathError):
            backend.get_file(jar, path)
        if path != "not-there":
            with pytest.raises(PathError):
                backend.put_file(jar, path, b"")

    def test_a_file_over_the_limit(self, backend, jar):
        backend.put_file(jar, "file", b"12345678")
        with pytest.raises(PathError):
            backend.get_file(jar, "file", limit=7)

    def test_trees_go_in_and_out(self, backend, jar):
        files = {"a": b"1", "b/c": bytes(range(256)) * 4096, "b/.git/HEAD": b"ref", "b/ü\udcff" + "x" * 200: b""}
        put(backend, jar, "made/on/the/way", tree(files))
        assert backend.get_file(jar, "/workspace/made/on/the/way/a") == b"1"
        assert contents(get(backend, jar, "made/on/the/way")) == files
        put(backend, jar, "/workspace/made", tree({"on/the/way/a": b"2"}))
        assert contents(get(backend, jar, "made", names=("on/the/way/a", "none", "none/at/all"))) == {
            "on/the/way/a": b"2"
        }
        assert contents(get(backend, jar, "made/on", names=())) == {}
        assert set(contents(get(backend, jar, "made/on/the", names=("way/b", "./way//a")))) == {
            f"way/{name}" for name in files
        }

    def test_a_tree_over_the_limit(self, backend, jar):
        put(backend, jar, "tree", tree({"file": bytes(5000)}))
        whole = get(backend, jar, "tree")
        assert get(backend, jar, "tree", limit=len(whole)) == whole
        for limit in (0, 5000, len(whole) - 1):
            with pytest.raises(PathError):
                get(backend, jar, "tree", limit=limit)

    @pytest.mark.parametrize("path", ["not-there", "file", "nul\0"])
    def test_trees_that_cannot_be(self, backend, jar, path):
        backend.put_file(jar, "file", b"")
        with pytest.raises(PathError):
            get(backend, jar, path)
        if path != "not-there":
            with pytest.raises(PathError):
                put(backend, jar, path, tree({"file": b""}))

    @pytest.mark.parametrize("name", ["..", "a/../b", "/etc/passwd", "nul\0", "d/" * 200 + "f"])
    def test_names_that_lead_out_of_a_tree(self, backend, jar, name):
        put(backend, jar, "tree", tree({"file": b""}))
        with pytest.raises(PathError):
            get(backend, jar, "tree", names=(name,))
        if "\0" not in name:
            with pytest.raises(PathError):
                put(backend, jar, "tree", tree({name: b""}))

    def test_archives_that_are_damaged(self, backend, jar):
        whole = tree({"file": bytes(100_000)})
        for damaged in (b"", b"no archive" * 100, whole[:50_000], whole[: 512 + 100_352], whole[1:]):
            with pytest.raises(PathError):
                put(backend, jar, "tree", damaged)

    def test_a_paused_sandbox_does_nothing(self, backend, jar):
        with started(backend, jar, "cat") as cat:
            cat.write(b"before")
            assert cat.read() == b"before"
            backend.pause(jar)
            backend.pause(jar)
            assert backend.sandboxes() == [SandboxStatus(jar, State.PAUSED)]
            cat.write(b"meanwhile")
            assert cat.is_silent()
            with pytest.raises(PausedError):
                run(backend, jar, "true")
            backend.resume(jar)
            backend.resume(jar)
            assert backend.sandboxes() == [SandboxStatus(jar, State.RUNNING)]
            assert cat.read() == b"meanwhile"

    def test_destroying_ends_commands(self, backend, jar):
        with started(backend, jar, "sleep", "1000") as sleep:
            backend.destroy(jar)
            assert sleep.process.wait(PATIENCE) == 128 + signal.SIGKILL
        assert backend.sandboxes() == []

    def test_a_paused_sandbox_can_be_destroyed(self, backend, jar):
        backend.pause(jar)
        backend.destroy(jar)
        assert backend.sandboxes() == []

    def test_what_is_gone_is_gone(self, backend, jar):
        backend.destroy(jar)
        backend.destroy(jar)
        asked = (
            lambda: run(backend, jar, "true"),
            lambda: backend.get_file(jar, "file"),
            lambda: backend.put_file(jar, "file", b""),
            lambda: get(backend, jar, "."),
            lambda: put(backend, jar, ".", tree({})),
            lambda: backend.pause(jar),
            lambda: backend.resume(jar),
            lambda: backend.adopt(jar),
        )
        for ask in asked:
            with pytest.raises(GoneError):
                ask()

    def test_a_name_is_taken_once_and_free_again(self, backend, jar):
        with pytest.raises(SpecError):
            backend.create(jar, self.spec)
        assert run(backend, jar, "true").code == 0
        backend.destroy(jar)
        backend.create(jar, self.spec).close()
        assert run(backend, jar, "true").code == 0

    @pytest.mark.parametrize("name", ["", "../up", "a/b", "a b", "ü", "x" * 65])
    def test_names_that_cannot_be(self, backend, name):
        with pytest.raises(SpecError):
            backend.create(name, self.spec)
        assert backend.sandboxes() == []

    def test_sandboxes_are_apart(self, backend, jar):
        backend.create("other", self.spec).close()
        backend.put_file(jar, "/tmp/file", b"jar")
        with pytest.raises(PathError):
            backend.get_file("other", "/tmp/file")
        backend.destroy(jar)
        assert run(backend, "other", "true").code == 0

    def test_sandboxes_and_commands_outlive_the_backend(self, open_backend, backend, jar):
        backend.put_file(jar, "file", b"still here")
        with started(backend, jar, "cat") as cat:
            backend.close()
            again = open_backend()
            try:
                assert again.sandboxes() == [SandboxStatus(jar, State.RUNNING)]
                cat.write(b"still running")
                assert cat.read() == b"still running"
                assert again.get_file(jar, "file") == b"still here"
                again.destroy(jar)
                assert again.sandboxes() == []
            finally:
                again.close()

    def test_all_that_is_asked_of_a_gateway_is_answered_wherever_it_serves(self, backend):
        attachment = backend.create("jar", self.spec)
        with Workers(1) as here:
            gateways = Gateways(here)
            gateways.open("jar", NOTHING, attachment)
            assert gateways.is_in_force("jar")
            assert gateways.change_policy("jar", NOTHING._replace(generation=2)) == Acknowledgement(2, flows_cut=0)
            assert (gateways.flows("jar"), gateways.denials("jar")) == ([], [])
            assert 'sandbox="jar"' in gateways.metrics()
            gateways.close("jar")
            assert not gateways.has("jar")

    def test_doors_can_be_had_again(self, backend, jar):
        backend.create("other", self.spec).close()
        backend.adopt("other").close()
        assert run(backend, "other", "true").code == 0


class Sealed(Conformance):
    """What holds, beside that, for every backend whose sandboxes run programs."""

    def test_no_capability_no_new_privileges_a_filter(self, backend, jar):
        status = shell(backend, jar, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
        lines = dict(line.split(":\t") for line in status.splitlines())
        assert {value for name, value in lines.items() if name.startswith("Cap")} == {"0" * 16}
        assert (lines["NoNewPrivs"], lines["Seccomp"]) == ("1", "2")

    def test_nobody_leaves_a_core_dump(self, backend, jar):
        """A limit of 0 is about files alone, and a dump may be the input of a program of the host's."""
        may_be = {"1"} if resource.getrlimit(resource.RLIMIT_CORE)[1] else {"0", "1"}
        for process in ("self", "1"):
            *_, soft, hard, _ = shell(backend, jar, f"grep '^Max core' /proc/{process}/limits").split()
            assert {soft, hard} <= may_be

    def test_a_command_is_where_the_first_process_is(self, backend, jar):
        own, first = (
            shell(backend, jar, f"for n in /proc/{who}/ns/*; do readlink $n; done").split() for who in ("self", "1")
        )
        assert own
        assert own == first

    def test_only_the_standard_streams_are_open(self, backend, jar):
        assert shell(backend, jar, "ls /proc/self/fd").split() == ["0", "1", "2", "3"]  # 3 is what ls reads

    def test_signals_are_as_in_any_program(self, backend, jar):
        out = run(backend, jar, "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status").out.split()
        assert [int(mask, 16) & ~SIGNALS_OF_LIBC for mask in out[1::2]] == [0, 0]

    def test_there_is_no_interface_but_loopback(self, backend, jar):
        out = shell(backend, jar, "tail -n +3 /proc/net/dev | cut -d: -f1")
        assert out.split() == ["lo"]

    def test_walls_cannot_be_changed_from_inside(self, backend, jar):
        for attempt in ("mount -t tmpfs none /tmp", "unshare -Ur true", "nsenter -t 1 -n true", "chroot / true"):
            assert run(backend, jar, "sh", "-c", attempt).code not in (0, 127), attempt

    def test_a_command_that_is_too_long(self, backend, jar):
        with pytest.raises(SpecError):
            run(backend, jar, "true", "x" * 200_000)

    def test_a_command_has_a_session_of_its_own(self, backend, jar):
        own = shell(backend, jar, "cut -d' ' -f1,6 /proc/$$/stat").split()
        assert own[0] == own[1]

    def test_a_signal_reaches_what_the_command_started(self, backend, jar):
        with started(backend, jar, "sh", "-c", "sleep 1000 & echo ready; wait") as command:
            assert command.read() == b"ready\n"
            command.process.signal(signal.SIGKILL)
            assert command.finish().code == 128 + signal.SIGKILL  # finish reads to the end: nobody holds the stream

    def test_the_agent_cannot_end_its_sandbox_by_accident(self, backend, jar):
        run(backend, jar, "sh", "-c", "kill -9 -1; kill -9 1")
        assert run(backend, jar, "true").code == 0

    def test_an_agent_that_fights_back_is_paused_and_destroyed(self, backend, jar):
        script = "exec 2>/dev/null; while :; do kill -9 -1; kill -STOP -1; echo .; done"
        with started(backend, jar, "sh", "-c", script) as agent:
            assert agent.read()
            backend.pause(jar)
            while not agent.is_silent():  # what it had said before
                agent.read()
            assert backend.sandboxes() == [SandboxStatus(jar, State.PAUSED)]
            backend.resume(jar)
            assert agent.read()
            backend.destroy(jar)
            assert agent.process.wait(PATIENCE) == 128 + signal.SIGKILL

    def test_orphans_are_reaped(self, backend, jar):
        shell(backend, jar, "for i in 1 2 3; do (sh -c 'exit 0' &) ; done")
        shell(backend, jar, "until ! grep -l '^State:.Z' /proc/[0-9]*/status; do :; done")

    def test_a_gateway_decides_about_what_is_asked_for_inside(self, backend):
        attachment = backend.create("jar", self.spec)
        with Workers(1) as here:
            gateways = Gateways(here)
            gateways.open("jar", NOTHING, attachment)
            run(backend, "jar", "sh", "-c", "getent hosts denied.test || nslookup denied.test")
            assert {denial.destination for denial in gateways.denials("jar")} == {"denied.test"}
            gateways.close("jar")

    def test_a_terminal(self, backend, jar):
        ours, theirs = os.openpty()
        termios.tcsetwinsize(ours, (33, 99))
        script = "test -t 0 && stty size < /dev/tty && kill -INT 0"
        process = backend.start(jar, Command(("sh", "-c", script)), Streams(theirs, theirs, theirs))
        os.close(theirs)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
        assert os.read(ours, 100).split() == [b"33", b"99"]
        process.close()
        os.close(ours)

    def test_links_lead_where_they_lead_inside(self, backend, jar):
        backend.put_file(jar, "inside", b"inside")
        shell(backend, jar, "ln -s /etc/shadow shadow; ln -s inside link; ln -s /workspace/new/../../etc/new out")
        assert backend.get_file(jar, "link") == b"inside"
        for path in ("shadow", "/etc/shadow", "../../../../../../etc/shadow", "/proc/self/root/etc/shadow"):
            with pytest.raises(PathError):
                backend.get_file(jar, path)
        with pytest.raises(PathError):
            backend.put_file(jar, "out", b"x")

    @pytest.mark.parametrize("path", ["/dev/zero", "pipe", "/proc/kmsg", "/dev/ptmx"])
    def test_what_is_no_file_keeps_nobody_waiting(self, backend, jar, path):
        shell(backend, jar, "mkfifo pipe")
        with pytest.raises(PathError):
            backend.get_file(jar, path)
        with pytest.raises(PathError):
            backend.put_file(jar, path, b"x")

    def test_a_tree_keeps_modes_links_and_empty_directories(self, backend, jar):
        sent = {
            "empty": {"type": tarfile.DIRTYPE, "mode": 0o1775},
            "closed": {"type": tarfile.DIRTYPE, "mode": 0o500},
            "closed/tool": {"mode": 0o4751, "mtime": 12345},
            "link": {"type": tarfile.SYMTYPE, "linkname": "/etc/shadow"},
            "second": {"type": tarfile.LNKTYPE, "linkname": "./closed/tool"},
        }
        put(backend, jar, "tree", tree(sent))
        shell(backend, jar, "mkfifo tree/fifo; echo x > tree/second")
        assert shell(backend, jar, "cat tree/closed/tool; stat -c %h tree/second") == "x\n2\n"
        found = entries(get(backend, jar, "tree"))
        shown = {name: (entry.type, entry.mode, entry.linkname) for name, entry in found.items()}
        assert shown == {
            "empty": (tarfile.DIRTYPE, 0o775, ""),
            "closed": (tarfile.DIRTYPE, 0o500, ""),
            "closed/tool": (tarfile.REGTYPE, 0o751, ""),
            "link": (tarfile.SYMTYPE, 0o777, "/etc/shadow"),
            "second": (tarfile.REGTYPE, 0o751, ""),
        }
        assert found["second"].size == 2
        put(backend, jar, "again", get(backend, jar, "tree"))
        assert contents(get(backend, jar, "again")) == {"closed/tool": b"x\n", "second": b"x\n"}

    def test_a_tree_is_not_unpacked_through_links(self, backend, jar):
        script = "mkdir tree outside; cd tree; ln -s ../outside directory; ln -s ../outside/file file; "
        shell(backend, jar, script + "mkfifo fifo; echo old > ../outside/named; ln ../outside/named named")
        for name in ("directory/file", "directory/new/file", "file/new"):
            with pytest.raises(PathError):
                put(backend, jar, "tree", tree({name: b"new"}))
        made = {"inside": {"type": tarfile.SYMTYPE, "linkname": "../outside"}, "inside/file": b"new"}
        second = {"second": {"type": tarfile.LNKTYPE, "linkname": "directory/named"}}
        above = {"second": {"type": tarfile.LNKTYPE, "linkname": "../outside/named"}}
        directory = {"directory": {"type": tarfile.DIRTYPE}}
        for sent in (made, second, above, directory):
            with pytest.raises(PathError):
                put(backend, jar, "tree", tree(sent))
        put(backend, jar, "tree", tree(dict.fromkeys(("file", "fifo", "named"), b"new")))
        assert shell(backend, jar, "cd outside; echo *; cat named") == "named\nold\n"
        assert shell(backend, jar, "cd tree; cat file fifo named") == "newnewnew"

    @pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE])
    def test_a_tree_has_no_devices(self, backend, jar, kind):
        with pytest.raises(PathError):
            put(backend, jar, "tree", tree({"null": {"type": kind, "devmajor": 1, "devminor": 3}}))
        assert shell(backend, jar, "ls -A tree") == ""

    def test_a_tree_is_packed_without_following_links(self, backend, jar):
        shell(backend, jar, "mkdir -p tree outside; echo secret > outside/file; ln -s ../outside tree/link")
        assert entries(get(backend, jar, "tree", names=("link",)))["link"].issym()
        with pytest.raises(PathError):
            get(backend, jar, "tree", names=("link/file",))
        shell(backend, jar, "ln -s tree elsewhere")
        assert list(entries(get(backend, jar, "elsewhere"))) == ["link"]

    def test_a_file_that_grows_or_vanishes_while_it_is_packed(self, backend, jar):
        """Nothing waits for its end, and the archive is a whole one."""
        script = """
        mkdir tree; head -c 30000000 /dev/zero >tree/file; echo ready
        while :; do
            head -c 100000 /dev/zero >>tree/file
            for i in 1 2 3 4 5 6 7 8; do mkdir -p tree/d$i/e; : >tree/d$i/e/f; done
            rm -r tree/d*; mkfifo tree/d1 tree/d2; ln -s / tree/d3; rm tree/d*
        done
        """
        with started(backend, jar, "sh", "-c", script) as agent:
            assert agent.read() == b"ready\n"
            for _ in range(5):
                found = contents(get(backend, jar, "tree"))
                assert len(found["file"]) >= 30_000_000
            agent.process.signal(signal.SIGKILL)

    def test_what_has_no_end_is_not_packed(self, backend, jar):
        """Neither a file of any size that takes no room, nor directories that are too deep."""
        shell(backend, jar, f"mkdir tree deep; truncate -s 100G tree/file; mkdir -p deep/{'d/' * 200}")
        for path in ("tree", "deep"):
            with pytest.raises(PathError):
                get(backend, jar, path)

    def test_what_the_agent_cannot_read_or_write_is_no_part_of_a_tree(self, backend, jar):
        shell(backend, jar, "mkdir tree; echo 1 > tree/closed; chmod 0 tree/closed")
        with pytest.raises(PathError, match="closed"):
            get(backend, jar, "tree")
        for path in ("/usr/new", "/proc/self"):
            with pytest.raises(PathError):
                put(backend, jar, path, tree({"file": b""}))

    def test_trees_may_be_large(self, backend, jar):
        """Larger than a file that goes in or out in one piece."""
        shell(backend, jar, "mkdir -p tree/a; head -c 70000000 /dev/zero > tree/a/file; cp tree/a/file tree/b")
        packed = get(backend, jar, "tree")
        put(backend, jar, "again", packed)
        assert shell(backend, jar, "cd again; cat a/file b | cksum") == shell(
            backend, jar, "cd tree; cat a/file b | cksum"
        )

    def test_files_belong_to_the_agent(self, backend, jar):
        backend.put_file(jar, "file", b"1", mode=0o750)
        assert shell(backend, jar, "stat -c '%u %a' file; id -u").split()[:2] == [
            shell(backend, jar, "id -u").strip(),
            "750",
        ]
        assert shell(backend, jar, "echo 2 > file && cat file") == "2\n"

    def test_directories_that_are_closed_or_deep_are_deleted_too(self, backend, jar):
        shell(backend, jar, "mkdir -p a/b && touch a/b/c && chmod 0 a/b a")
        shell(backend, jar, f"mkdir -p {'d/' * 1100}")
        backend.destroy(jar)
        assert backend.sandboxes() == []

    @pytest.mark.parametrize("scratch", ["/srv/new", "/tmp/new", "/home"])
    def test_an_empty_directory_to_work_in_is_the_agents(self, backend, scratch):
        backend.create("jar", replace(self.spec, scratch=Path(scratch))).close()
        script = "pwd; ls -A; echo 1 >file; mkdir -p a/b; mv file a/b; cat a/b/file"
        assert shell(backend, "jar", script) == f"{scratch}\n1\n"
        assert len(set(shell(backend, "jar", "stat -c %u . a/b/file; id -u").split())) == 1

    def test_an_empty_directory_in_a_system_that_is_read_only(self, backend):
        backend.create("jar", replace(self.spec, scratch=Path("/srv/new"), read_only=True)).close()
        assert shell(backend, "jar", "pwd; ls -A; echo 1 >file; cat file") == "/srv/new\n1\n"

    @pytest.mark.parametrize("scratch", ["/", "work", "/srv/../etc", "/proc/new", "/dev", "/shown", "/shown/new"])
    def test_an_empty_directory_that_cannot_be(self, backend, workdir, scratch):
        shown = (Bind(workdir, Path("/shown"), writable=True),)
        with pytest.raises(SpecError):
            backend.create("jar", replace(self.spec, scratch=Path(scratch), binds=shown))
        assert backend.sandboxes() == []
        assert not list(workdir.iterdir())

    def test_what_is_shown_in_the_empty_directory(self, backend, workdir):
        (workdir / "file").write_text("1")
        shown = (Bind(workdir, Path("/srv/work/shown"), writable=False),)
        backend.create("jar", replace(self.spec, scratch=Path("/srv/work"), binds=shown)).close()
        assert shell(backend, "jar", "echo *; cat shown/file") == "shown\n1"

    def test_a_workdir_of_the_host(self, backend, workdir):
        backend.create("jar", replace(self.spec, workdir=workdir)).close()
        assert run(backend, "jar", "pwd").out == f"{workdir}\n"
        shell(backend, "jar", "echo inside > file")
        assert (workdir / "file").read_text() == "inside\n"

    def test_a_workdir_that_is_not_there(self, backend):
        with pytest.raises(SpecError):
            backend.create("jar", replace(self.spec, workdir=Path("/not/there")))
        assert backend.sandboxes() == []

    def test_files_that_exist_inside_only(self, backend):
        backend.create("jar", replace(self.spec, files={Path("/run/belljar/policy.json"): b"{}"})).close()
        assert backend.get_file("jar", "/run/belljar/policy.json") == b"{}"
        with pytest.raises(PathError):
            backend.put_file("jar", "/run/belljar/policy.json", b"[]")
