"""Commands in containers of each engine: what goes in, what comes out, and how they end."""

import fcntl
import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from belljar.backends.containers.engine.client import Engine, EngineError
from belljar.backends.containers.exec import state
from belljar.backends.containers.exec.process import ContainerProcess, start
from belljar.backends.containers.exec.state import KILLED, Execution, MainProcess
from belljar.backends.containers.exec.streaming import UNREAD
from belljar.backends.containers.exec.terminal import terminal_for
from belljar.backends.interface import LostError, Streams
from belljar.linux.lives import has_ended
from tests import privileges
from tests.engines import BUSYBOX, busybox, make_image, start_docker, start_podman

pytestmark = pytest.mark.long

PATIENCE = 60
A_MOMENT = 0.2
"""Long enough for a command that can go on to do so; nothing fails if it is too short."""

HELD_BY_A_PIPE = 65536
MEGABYTES = 10
SPEAKS_FOR_EVER = "while :; do echo and on; done"
IN_A_SESSION = 'test $(cut -d\' \' -f5 /proc/$$/stat) = $$ && exec "$@"; exec setsid "$@"'
"""Not every engine gives a command one of its own."""


class Container(NamedTuple):
    """A container in which nothing happens by itself."""

    engine: Engine
    name: str

    @classmethod
    def make(cls, engine, name: str | None = None) -> "Container":
        client = Engine(engine.kind, engine.socket)
        wanted = {"Image": BUSYBOX, "Cmd": ["sleep", "100000"], "HostConfig": {"NetworkMode": "none"}}
        container = client.post("/containers/create", wanted, name=name)["Id"]
        client.post(f"/containers/{container}/start")
        return cls(client, name or container)

    def start(self, *arguments: str, streams: Streams, user: str | None = None, **environment: str) -> ContainerProcess:
        return start(
            self.engine,
            self.name,
            arguments,
            environment=environment,
            user=user,
            streams=streams,
            signaller=self.signal,
            kill_all=self.remove,
            ran_out=lambda: False,
            terminal=terminal_for(streams),
        )

    def signal(self, pid: int, number: int) -> None:
        wanted = {"Cmd": ["sh", "-c", f"kill -{number} -{pid} || kill -{number} {pid}"]}
        made = self.engine.post(f"/containers/{self.name}/exec", wanted)["Id"]
        self.engine.post(f"/exec/{made}/start", {"Detach": True})

    def remove(self) -> None:
        self.engine.delete(f"/containers/{self.name}", force=True)


@pytest.fixture(params=["docker_engine", *(["podman_engine", "rootless_engine"] if privileges.EVERY_ENGINE else [])])
def engine(request):
    """Docker; or each of the engines in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def lasting() -> Iterator[dict[Path, Container]]:
    """Containers that many tests use, by the engine's socket."""
    containers: dict[Path, Container] = {}
    yield containers
    for container in containers.values():
        container.remove()


@pytest.fixture
def container(engine, lasting):
    """A container that lasts."""
    if engine.socket not in lasting:
        lasting[engine.socket] = Container.make(engine)
    return lasting[engine.socket]


@pytest.fixture
def doomed(engine) -> Iterator[Container]:
    """A container for a test that ends it."""
    container = Container.make(engine)
    yield container
    try:
        container.remove()
    except EngineError as error:
        if error.status != 404:
            raise


def read_some(descriptor: int) -> bytes:
    assert select.select([descriptor], [], [], PATIENCE)[0], "nothing is said"
    return os.read(descriptor, 65536)


def until(condition: Callable[[], bool]) -> None:
    given_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < given_up
        time.sleep(0.01)


class Piped:
    """A command whose streams are pipes."""

    def __init__(self, container: Container, *arguments: str, **options: str) -> None:
        (stdin, self.stdin), (self.stdout, stdout), (self.stderr, stderr) = os.pipe(), os.pipe(), os.pipe()
        try:
            self.process = container.start(*arguments, streams=Streams(stdin, stdout, stderr), **options)
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)

    def read(self) -> bytes:
        return read_some(self.stdout)

    def hang_up(self, name: str) -> None:
        os.close(getattr(self, name))
        setattr(self, name, -1)

    def finish(self) -> tuple[int, bytes, bytes]:
        self.hang_up("stdin")
        out, err = (_rest(stream) for stream in (self.stdout, self.stderr))
        return self.process.wait(PATIENCE), out, err

    def close(self) -> None:
        for descriptor in (self.stdin, self.stdout, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self.process.close()


def _rest(stream: int) -> bytes:
    with os.fdopen(os.dup(stream), "rb") as file:
        return file.read()


@contextmanager
def piped(container: Container, *arguments: str, **options: str) -> Iterator[Piped]:
    with closing(Piped(container, *arguments, **options)) as command:
        yield command


def run(container: Container, *arguments: str, **options: str) -> tuple[int, bytes, bytes]:
    with piped(container, *arguments, **options) as command:
        return command.finish()


def run_with_files(container: Container, script: str, given: bytes) -> tuple[int, bytes, bytes]:
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        stdin.write(given)
        stdin.seek(0)
        streams = Streams(stdin.fileno(), stdout.fileno(), stderr.fileno())
        with closing(container.start("sh", "-c", script, streams=streams)) as process:
            code = process.wait(PATIENCE)
        out, err = (os.pread(file.fileno(), MEGABYTES << 22, 0) for file in (stdout, stderr))
        return code, out, err


# Streams and exit codes.


def test_output_and_exit_code_are_the_commands(container):
    assert run(container, "echo", "a", "b c") == (0, b"a b c\n", b"")
    assert run(container, "sh", "-c", "echo out; echo error >&2; exit 3") == (3, b"out\n", b"error\n")


def test_variables_and_user(container):
    assert run(container, "sh", "-c", "echo $ONE; id -u", user="1000", ONE="a=b c") == (0, b"a=b c\n1000\n", b"")


@pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd"])
def test_a_program_that_cannot_be_run(container, program):
    code, out, err = run(container, program)
    assert code in (126, 127)  # Docker calls everything 126
    assert len((out + err).splitlines()) == 1


def test_input_reaches_the_command_while_it_runs(container):
    with piped(container, "cat") as cat:
        for line in (b"one\n", b"two\n"):
            os.write(cat.stdin, line)
            assert cat.read() == line
        assert cat.finish() == (0, b"", b"")


def test_binary_input_and_output(container):
    content = os.urandom(MEGABYTES << 20)
    assert run_with_files(container, "cat", content) == (0, content, b"")


def test_much_on_both_outputs(container):
    count = MEGABYTES << 20
    script = f"yes out | head -c {count} & yes error | head -c {count} >&2; wait"
    code, *outputs = run_with_files(container, script, b"")
    assert code == 0
    for output, word in zip(outputs, (b"out\n", b"error\n"), strict=True):
        expected = (word * (count // len(word) + 1))[:count]
        assert hashlib.sha256(output).digest() == hashlib.sha256(expected).digest()


@pytest.mark.parametrize("kind", ["null", "file", "socket"])
def test_the_end_of_the_input(container, kind):
    ours, theirs = socket.socketpair()
    with ours, theirs, tempfile.TemporaryFile() as file, Path(os.devnull).open("rb") as null:
        file.write(b"12345")
        file.seek(0)
        ours.sendall(b"1234567")
        ours.shutdown(socket.SHUT_WR)
        stdin = {"null": null.fileno(), "file": file.fileno(), "socket": theirs.fileno()}[kind]
        with tempfile.TemporaryFile() as stdout:
            streams = Streams(stdin, stdout.fileno(), stdout.fileno())
            with closing(container.start("wc", "-c", streams=streams)) as process:
                assert process.wait(PATIENCE) == 0
            assert int(os.pread(stdout.fileno(), 100, 0)) == {"null": 0, "file": 5, "socket": 7}[kind]


def test_input_that_the_command_does_not_read(container):
    code, out, err = run_with_files(container, "echo done; exit 3", b"x" * 1_000_000)
    assert code == 3
    assert (out, err) == (b"done\n", b"") or err == UNREAD


def test_a_slow_reader_gets_everything(container):
    """What is not taken within two seconds of a command's end, Docker throws away; by then it is all with us."""
    count, taken = 1_350_000, 0
    with piped(container, "head", "-c", str(count), "/dev/zero") as command:
        main = command.process._main
        while main is not None and not has_ended(main.descriptor, A_MOMENT):
            taken += len(read_some(command.stdout))  # as little as lets it go on
        until(lambda: not command.process._pump.is_open)
        if count - taken > HELD_BY_A_PIPE:  # unless we were slow ourselves, and have taken more than we had to
            with pytest.raises(TimeoutError):
                command.process.wait(0)
        code, out, _ = command.finish()
        assert (code, taken + len(out)) == (0, count)


def test_a_reader_that_is_gone(container):
    with piped(container, "sh", "-c", "read go; yes | head -c 1000000; echo done >&2; exit 5") as command:
        command.hang_up("stdout")
        os.write(command.stdin, b"go\n")
        assert _rest(command.stderr) == b"done\n"
        assert command.process.wait(PATIENCE) == 5


def test_what_holds_the_output_after_the_end_is_not_waited_for(container):
    assert run(container, "sh", "-c", "sleep 1000 & echo begun; exit 4") == (4, b"begun\n", b"")


def test_a_command_that_closes_its_output_is_waited_for(container):
    with piped(container, "sh", "-c", "exec >&- 2>&-; read go; exit 7") as command:
        with pytest.raises(TimeoutError):
            command.process.wait(0)
        os.write(command.stdin, b"go\n")
        assert command.finish() == (7, b"", b"")


# Waiting, signals, letting go.


def test_the_end_can_be_polled_for_and_waited_for_by_many(container):
    with piped(container, "sh", "-c", "read go; exit 9") as command:
        codes: list[int] = []
        waiting = [threading.Thread(target=lambda: codes.append(command.process.wait(PATIENCE))) for _ in range(4)]
        for thread in waiting:
            thread.start()
        assert not select.select([command.process], [], [], 0)[0]
        os.write(command.stdin, b"go\n")
        assert select.select([command.process], [], [], PATIENCE)[0]
        assert command.process.wait(0) == 9
        for thread in waiting:
            thread.join(PATIENCE)
        assert codes == [9] * 4
        assert select.select([command.process], [], [], 0)[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_ends_a_command(container, number):
    with piped(container, "sleep", "1000") as sleep:
        sleep.process.signal(number)
        assert sleep.process.wait(PATIENCE) == 128 + number
        sleep.process.signal(number)


@dataclass(frozen=True)
class SlowToStart(Engine):
    """An engine that reports three times that it has not started a command yet, as Docker does on a busy machine."""

    delays: Iterator[int] = field(default_factory=lambda: iter(range(3)))

    def get(self, path: str, /, **query: Any) -> Any:
        found = super().get(path, **query)
        is_early = path.startswith("/exec/") and next(self.delays, None) is not None
        return {**found, "Running": False, "Pid": 0, "ExitCode": None} if is_early else found


def test_a_command_that_has_not_started_yet_is_signalled_once_it_has(container):
    slow = SlowToStart(container.engine.kind, container.engine.address)
    with piped(container._replace(engine=slow), "sleep", "1000") as sleep:
        sleep.process.signal(signal.SIGTERM)
        assert sleep.process.wait(PATIENCE) == 128 + signal.SIGTERM
    assert list(slow.delays) == []


@dataclass(frozen=True)
class HeldUp(Engine):
    """An engine whose runtime an agent has stopped: the command runs, and has no process yet."""

    def get(self, path: str, /, **query: Any) -> Any:
        found = super().get(path, **query)
        return {**found, "Running": True, "Pid": 0, "ExitCode": None} if path.startswith("/exec/") else found


def test_a_command_whose_start_is_held_up_keeps_nobody_waiting(container, monkeypatch):
    monkeypatch.setattr(state, "_START_TIMEOUT", 0.5)
    held_up = HeldUp(container.engine.kind, container.engine.address)
    with (
        piped(container._replace(engine=held_up), "sleep", "1000") as sleep,
        pytest.raises(LostError, match="no signal reaches it"),
    ):
        sleep.process.signal(signal.SIGTERM)


def test_a_signal_reaches_what_the_command_started(container):
    script = "trap 'exit 6' TERM; sh -c 'echo ready; sleep 1000' & wait"
    with piped(container, "sh", "-c", IN_A_SESSION, "sh", "sh", "-c", script) as command:
        assert command.read() == b"ready\n"
        command.process.signal(signal.SIGTERM)
        assert command.finish() == (6, b"", b"")


def test_a_killed_command_is_not_kept_by_a_reader_that_does_not_read(container):
    with piped(container, "sh", "-c", SPEAKS_FOR_EVER) as command:
        assert command.read()
        command.process.signal(signal.SIGKILL)
        assert command.process.wait(PATIENCE) == KILLED


def test_a_command_runs_on_when_it_is_let_go(container):
    with piped(container, "cat") as cat:
        cat.process.close()
        cat.process.close()
        os.write(cat.stdin, b"still here")
        assert cat.read() == b"still here"
        assert cat.finish() == (0, b"", b"")


def test_nothing_is_left_of_a_command(container):
    run(container, "true")
    descriptors, threads = len([*Path("/proc/self/fd").iterdir()]), threading.active_count()
    with piped(container, "true") as command:
        command.finish()
    with pytest.raises(EngineError):
        Container(container.engine, "no-such-container").start("true", streams=Streams(0, 1, 2))
    for thread in threading.enumerate():
        if thread.name == "belljar-command":
            thread.join(PATIENCE)
    assert (len([*Path("/proc/self/fd").iterdir()]), threading.active_count()) == (descriptors, threads)


# Containers and engines that go away.


@pytest.mark.parametrize("script", ["sleep 1000", SPEAKS_FOR_EVER, "cat"])
def test_a_container_that_is_removed_kills_its_commands(doomed, script):
    with piped(doomed, "sh", "-c", f"echo ready; {script}") as command:
        assert command.read().startswith(b"ready\n")
        doomed.remove()
        assert command.process.wait(PATIENCE) == KILLED
        command.process.signal(signal.SIGTERM)


def test_a_container_that_is_killed_kills_its_commands(doomed):
    with piped(doomed, "sh", "-c", SPEAKS_FOR_EVER) as command:
        assert command.read()
        doomed.engine.post(f"/containers/{doomed.name}/kill")
        assert command.process.wait(PATIENCE) == KILLED


def test_a_container_of_the_same_name_is_another(engine):
    container = Container.make(engine, "same-name")
    with piped(container, "sh", "-c", "echo here; exec sleep 1000") as command:
        assert command.read() == b"here\n"
        container.remove()
        Container.make(engine, "same-name")
        assert command.process.wait(PATIENCE) == KILLED
    container.remove()


def test_a_command_that_the_engine_has_forgotten(container):
    with pytest.raises(LostError, match="forgotten"):
        Execution(container.engine, container.name, "0" * 64).code()


@pytest.mark.parametrize("start_engine", [start_docker, start_podman])
def test_an_engine_that_is_killed_takes_the_answer_with_it(privileged, start_engine):
    with start_engine() as engine:
        make_image(engine, BUSYBOX, busybox())
        with piped(Container.make(engine), "cat") as command:
            os.write(command.stdin, b"here")
            assert command.read() == b"here"
            engine.kill()
            for _ in range(2):
                with pytest.raises(LostError, match=engine.kind):
                    command.process.wait(PATIENCE)


# Engines that are on another machine, whose numbers mean nothing here.


def test_a_command_on_another_machine(container, monkeypatch):
    monkeypatch.setattr(state, "_hold", lambda _: None)
    with piped(container, "sh", "-c", "cat; exit 3") as command:
        with pytest.raises(LostError, match="another machine"):
            command.process.signal(signal.SIGTERM)
        assert command.finish() == (3, b"", b"")
        command.process.signal(signal.SIGTERM)


def test_a_number_of_another_process(container, monkeypatch):
    """Its end means nothing."""
    monkeypatch.setattr("belljar.backends.containers.exec.process._SECONDS_FOR_THE_REST", 0.01)
    with subprocess.Popen(["true"]) as other:
        monkeypatch.setattr(state, "_hold", lambda _: MainProcess(os.pidfd_open(other.pid), 2, other.pid))
        with piped(container, "cat") as cat:
            os.write(cat.stdin, b"here")
            assert cat.read() == b"here"
            assert cat.finish() == (0, b"", b"")


# Terminals.


class OnTerminal:
    """A command that has the far end of a terminal of ours."""

    def __init__(self, container: Container, script: str, size: tuple[int, int] = (0, 0)) -> None:
        self.ours, self.theirs = os.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.theirs)
        streams = Streams(self.theirs, self.theirs, self.theirs)
        self.process = container.start("sh", "-c", script, streams=streams)
        self.seen = b""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def expect(self, words: bytes) -> None:
        while words not in self.seen:
            self.seen += read_some(self.ours)
        self.seen = self.seen.split(words, 1)[1]

    def close(self) -> None:
        self.process.close()
        os.close(self.ours)
        os.close(self.theirs)


def test_a_terminal(container):
    with closing(OnTerminal(container, "tty && echo ready && read line && echo $line | rev; exit 3")) as terminal:
        terminal.expect(b"/dev/pts/")
        terminal.expect(b"ready\r\n")
        assert termios.tcgetattr(terminal.theirs) != terminal.before
        terminal.type(b"hello\r")
        terminal.expect(b"hello\r\n")  # by the command's own terminal, and not by the caller's
        terminal.expect(b"olleh\r\n")
        assert terminal.process.wait(PATIENCE) == 3
        assert termios.tcgetattr(terminal.theirs) == terminal.before


def test_an_interrupt_is_a_key(container):
    with closing(OnTerminal(container, "echo ready; sleep 1000")) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x03")
        assert terminal.process.wait(PATIENCE) == 128 + signal.SIGINT
        assert termios.tcgetattr(terminal.theirs) == terminal.before


def test_no_usual_key_is_the_engines(container):
    with closing(OnTerminal(container, "stty raw -echo; echo ready; head -c 3 | od -An -tx1; exit 3")) as terminal:
        terminal.expect(b"ready")
        terminal.type(b"\x10\x11\x04")
        terminal.expect(b"10 11 04")
        assert terminal.process.wait(PATIENCE) == 3


def test_the_size_of_a_terminal_is_carried(container):
    script = "until [ \"$(stty size)\" = '33 77' ]; do :; done; echo first; trap 'stty size' WINCH; while :; do :; done"
    with closing(OnTerminal(container, script, (33, 77))) as terminal:
        terminal.expect(b"first")
        terminal.resize(44, 88)
        terminal.expect(b"44 88")
        terminal.process.signal(signal.SIGKILL)
        assert terminal.process.wait(PATIENCE) == KILLED


def test_a_terminal_that_hangs_up(container):
    terminal = OnTerminal(container, "echo ready; read line; sleep 1000")
    terminal.expect(b"ready")
    os.close(terminal.ours)
    terminal.process.signal(signal.SIGKILL)
    assert terminal.process.wait(PATIENCE) == KILLED
    terminal.process.close()
    os.close(terminal.theirs)


def test_a_terminal_for_the_input_alone_is_none_for_the_command(container):
    ours, theirs = os.openpty()
    reading, writing = os.pipe()
    before = termios.tcgetattr(theirs)
    script = "test -t 0 || test -t 1 || test -t 2 || echo none; cat"
    with closing(container.start("sh", "-c", script, streams=Streams(theirs, writing, writing))) as process:
        os.close(writing)
        assert read_some(reading) == b"none\n"
        assert termios.tcgetattr(theirs) == before
        os.write(ours, b"line\n\x04")
        assert read_some(reading) == b"line\n"
        assert process.wait(PATIENCE) == 0
    for descriptor in (ours, theirs, reading):
        os.close(descriptor)


PROGRAM = """
import os, pathlib, sys
from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.exec.process import start
from belljar.backends.containers.exec.terminal import terminal_for
from belljar.backends.interface import Streams
engine = Engine(sys.argv[1], pathlib.Path(sys.argv[2]))
process = start(engine, sys.argv[3], ["sh", "-c", "echo ready; sleep 1000"], environment={}, user=None,
                streams=Streams(0, 1, 2), signaller=lambda *_: None, kill_all=lambda: None, ran_out=lambda: False,
                terminal=terminal_for(Streams(0, 1, 2)))
os.read(2, 1)
"""


def test_a_program_that_ends_first_leaves_the_terminal_as_it_was(container):
    ours, theirs = os.openpty()
    before = termios.tcgetattr(theirs)
    reading, writing = os.pipe()
    words = [sys.executable, "-c", PROGRAM, container.engine.kind, str(container.engine.address), container.name]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=reading) as program:
        seen = b""
        while b"ready" not in seen:
            seen += read_some(ours)
        assert termios.tcgetattr(theirs) != before
        os.close(writing)
        assert program.wait(PATIENCE) == 0
    assert termios.tcgetattr(theirs) == before
    for descriptor in (ours, theirs, reading):
        os.close(descriptor)
