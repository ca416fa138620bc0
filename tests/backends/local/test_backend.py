"""The local backend: what every backend does, and what becomes of its sandboxes when something dies.

As root, the whole file is run once more by an ordinary user.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from belljar.backends.interface import GoneError, LostError, MachineError, PathError, SandboxStatus, SpecError, State
from belljar.backends.local.backend import LocalBackend
from belljar.sandbox.spec import Bind, ResourceLimits, SandboxSpec
from belljar.testing.conformance import PATIENCE, Done, Sealed, get, put, run, shell, started

ROOT = Path(__file__).parents[3]


@pytest.fixture
def place():
    """A directory of our own; pytest's are below one that is closed to others."""
    path = Path(tempfile.mkdtemp(prefix="belljar-backend-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


def processes_of(state: Path) -> list[int]:
    """Return every process that sees a sandbox's directory mounted: the first around each, or what is making one."""
    found = []
    for mounts in Path("/proc").glob("[0-9]*/mountinfo"):
        with suppress(OSError):
            if f"{state}/" in mounts.read_text():
                found.append(int(mounts.parent.name))
    return found


class TestLocal(Sealed):
    @pytest.fixture
    def state(self, place):
        return place / "state"

    @pytest.fixture
    def workdir(self, place):
        (place / "work").mkdir()
        return place / "work"

    @pytest.fixture
    def open_backend(self, state):
        return lambda: LocalBackend(state)

    def record(self, state: Path) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((state / "jar/record.json").read_text())
        return found

    def test_nothing_is_left_of_a_sandbox(self, backend, jar, state):
        record = self.record(state)
        around, first, groups = record["around"][0], record["init"][0], record["groups"]
        assert around in processes_of(state)
        backend.destroy(jar)
        assert not [process for process in (around, first) if Path(f"/proc/{process}/exe").exists()]
        assert not [group for group in groups if Path(group).exists()]
        assert [path.name for path in state.iterdir()] == [".lock"]
        assert not processes_of(state)

    def test_a_server_that_is_killed_leaves_nothing_that_is_not_found(self, open_backend, state):
        """Whatever it was about to do. What it finished goes on; all of it can be destroyed."""
        for delay in range(8):
            with subprocess.Popen(
                [sys.executable, "-c", _SERVE, str(state)],
                stdout=subprocess.PIPE,
                env={"PYTHONPATH": f"{ROOT}/src"},
            ) as server:
                assert server.stdout is not None
                server.stdout.readline()
                select.select([], [], [], delay / 40)
                server.kill()
            backend = open_backend()
            found = backend.sandboxes()
            for sandbox, condition in found:
                if condition is State.RUNNING:
                    assert run(backend, sandbox, "true").code == 0
                    backend.adopt(sandbox).close()
                backend.destroy(sandbox)
            backend.close()
            assert not processes_of(state)

    def test_the_state_is_nobody_elses(self, backend, jar, state):
        for path in (state, state / "jar", state / "jar/record.json"):
            assert path.stat().st_mode & 0o077 == 0
        state.chmod(0o755)
        with pytest.raises(MachineError):
            LocalBackend(state)
        state.chmod(0o700)

    def test_a_sandbox_that_died_is_found_dead(self, backend, jar, state):
        first = self.record(state)["init"][0]
        watched = os.pidfd_open(first)
        os.kill(first, signal.SIGKILL)
        assert select.select([watched], [], [], PATIENCE)[0]
        os.close(watched)
        assert backend.sandboxes() == [SandboxStatus(jar, State.DEAD)]
        with pytest.raises(GoneError):
            run(backend, jar, "true")
        backend.destroy(jar)
        assert backend.sandboxes() == []

    @pytest.mark.parametrize("part", [1, 2])
    def test_another_process_with_the_same_number_is_left_alone(self, backend, state, part):
        """It started at another time, or in another life of the machine."""
        with subprocess.Popen(["sleep", "1000"]) as other:
            backend.create("jar", SandboxSpec()).close()
            record = self.record(state)
            os.kill(record["init"][0], signal.SIGKILL)
            fields = Path(f"/proc/{other.pid}/stat").read_text().rpartition(")")[2].split()
            life = [other.pid, int(fields[19]), record["init"][2]]
            life[part] = f"{life[part]}0" if part == 2 else life[part] + 1
            (state / "jar/record.json").write_text(json.dumps({**record, "init": life, "around": life}))
            assert backend.sandboxes() == [SandboxStatus("jar", State.DEAD)]
            backend.destroy("jar")
            assert other.poll() is None
            other.kill()

    def test_what_cannot_be_read_is_not_taken_for_gone(self, backend, jar, state):
        """There may be processes that nobody else knows of."""
        record = (state / "jar/record.json").read_text()
        (state / "jar/record.json").write_text("{}")
        assert backend.sandboxes() == [SandboxStatus(jar, State.DEAD)]
        with pytest.raises(LostError):
            backend.destroy(jar)
        (state / "jar/record.json").write_text(json.dumps({**json.loads(record), "from a later version": 1}))
        assert run(backend, jar, "true").code == 0

    def test_an_unfinished_sandbox_is_found_dead(self, backend, state):
        (state / "half").mkdir()
        assert backend.sandboxes() == [SandboxStatus("half", State.DEAD)]
        backend.destroy("half")
        assert backend.sandboxes() == []

    def test_the_end_of_the_forker_is_survived(self, backend, jar):
        with started(backend, jar, "cat") as cat:
            os.kill(backend._forker._process.pid, signal.SIGKILL)
            cat.write(b"on")
            assert cat.read() == b"on"
            with pytest.raises(LostError):
                cat.process.wait(PATIENCE)
            backend._forker._process.wait()
            assert run(backend, jar, "true").code == 0

    def test_only_one_server_has_a_state_directory(self, backend, state, monkeypatch):
        monkeypatch.setattr("belljar.backends.local.forker.client.PATIENCE", 0.5)
        with pytest.raises(LostError):
            LocalBackend(state)

    def test_the_entering_process_is_closed_to_the_agent(self, backend, jar, state):
        """One is held up here between being forked into the sandbox and becoming the command."""
        with subprocess.Popen(
            [sys.executable, "-c", _ENTER_AND_WAIT, str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": f"{ROOT}/src", "SECRET": "s3cret"},
        ) as entering:
            assert entering.stdin is not None
            assert entering.stdout is not None
            pid = entering.stdout.readline().strip()
            closed = "environ maps mem auxv fd/0 fd/1 cwd/etc/passwd root/etc/passwd exe map_files syscall stack io"
            script = (
                f"cd /proc/{pid} && for f in {closed}; do head -c 4096 $f; readlink $f; ls $f/; done;"
                " for n in ns/*; do readlink $n; done; echo > mem; echo > clear_refs; echo end"
            )
            assert shell(backend, jar, script) == "end\n"
            entering.stdin.close()

    def test_the_hosts_python_cannot_be_had(self, backend, jar):
        """Neither by its name in /proc, nor as the interpreter of a script."""
        shell(backend, jar, "ln -s /proc/self/exe link; printf '#!/proc/self/exe\\n' > script; chmod +x script")
        for program in ("/workspace/link", "/workspace/script", "/proc/self/exe"):
            done = run(backend, jar, program, "-c", "readlink /proc/$$/exe")
            assert "python" not in done.out + done.err

    def test_a_shell_that_the_agent_can_change_is_not_used(self, backend, workdir):
        shutil.copy("/bin/sh", workdir / "sh")
        binds = (Bind(workdir, Path("/usr/bin"), writable=True),)
        backend.create("jar", SandboxSpec(binds=binds)).close()
        with pytest.raises(MachineError):
            run(backend, "jar", "true")

    def test_limits_hold_for_commands(self, backend):
        backend.create("jar", SandboxSpec(limits=ResourceLimits(memory_bytes=200 << 20))).close()
        fill = "x=$(head -c {} /dev/zero | tr '\\0' x); echo ${{#x}}"
        assert shell(backend, "jar", fill.format(10_000_000)) == "10000000\n"
        assert shell(backend, "jar", fill.format(300_000_000)) == ""

    def test_no_sandbox_is_shown_the_state(self, backend, jar, state, place):
        (place / "link").symlink_to(state)
        for shown in (state, state / "jar", state.parent, place / "link"):
            for wanted in (
                SandboxSpec(workdir=shown),
                SandboxSpec(binds=(Bind(shown, Path("/shown"), writable=False),)),
            ):
                with pytest.raises(SpecError):
                    backend.create("other", wanted)
        assert backend.sandboxes() == [SandboxStatus(jar, State.RUNNING)]

    @pytest.mark.parametrize("scratch", ["/usr/new", "/etc", "/bin/new", "/run", "/run/belljar"])
    def test_an_empty_directory_is_no_part_of_the_system(self, backend, scratch):
        with pytest.raises(SpecError, match=f"no working directory can be at {scratch}, since"):
            backend.create("jar", SandboxSpec(scratch=Path(scratch)))
        assert backend.sandboxes() == []

    @pytest.mark.parametrize("scratch", ["above", "home", "below"])
    def test_an_empty_directory_around_or_in_the_home_directory(self, backend, scratch):
        home = Path(os.environ["HOME"])
        chosen = {"above": home.parent, "home": home, "below": home / "a/b"}[scratch]
        if chosen == Path("/"):
            pytest.skip("the home directory is at the root")
        backend.create("jar", SandboxSpec(scratch=chosen)).close()
        assert shell(backend, "jar", "pwd; cd; pwd; echo 1 >file; cat file") == f"{chosen}\n{home}\n1\n"

    def test_git_works_in_the_empty_directory(self, backend):
        """What keeps users' repositories from being changed is not about this one."""
        backend.create("jar", SandboxSpec(scratch=Path("/home/somewhere/work"))).close()
        script = "git init -q && git config user.email a@b && git config user.name a && echo 1 >file && git add ."
        commit = "git commit -qm first && touch .git/hooks/pre-commit && git log --format=%s"
        assert run(backend, "jar", "sh", "-c", f"{script} && {commit}") == Done(0, "first\n")
        put(backend, "jar", "again", get(backend, "jar", ".", names=(".git", "file")))
        assert shell(backend, "jar", "cd again && git status --short && git log --format=%s") == "first\n"

    def test_nothing_inside_tells_where_the_state_is(self, backend, jar, state):
        mounts = shell(backend, jar, "cat /proc/self/mountinfo; touch made && ls -i made")
        assert " /workspace rw" in mounts
        assert str(state) not in mounts
        assert (state / jar / "work/files/made").exists()

    def test_a_path_into_the_state_is_no_name(self, backend, jar):
        for name in ("jar/work", "..", ".lock", ""):
            with pytest.raises((GoneError, PathError)):
                backend.get_file(name, "file")


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user runs this file already")
def test_all_of_this_as_an_ordinary_user():
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    environment = ["env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/nonexistent", "PYTHONDONTWRITEBYTECODE=1"]
    tests = [sys.executable, "-m", "pytest", "-q", "-x", "--noconftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*user, *environment, *tests, f"--rootdir={ROOT}", __file__],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stdout + done.stderr


_SERVE = """
import sys
from itertools import count
from pathlib import Path
from belljar.sandbox.spec import SandboxSpec
from belljar.backends.local.backend import LocalBackend
backend = LocalBackend(Path(sys.argv[1]))
print(flush=True)
for number in count():
    backend.create(f"jar-{number}", SandboxSpec()).close()
    if number % 2:
        backend.destroy(f"jar-{number - 1}")
"""

_ENTER_AND_WAIT = """
import os, sys
from pathlib import Path
from belljar.backends.local.forker.entering import enter
from belljar.backends.local.records import Records
enter(Records(Path(sys.argv[1])).read("jar"))
if os.fork() == 0:
    print(os.getpid(), flush=True)
    sys.stdin.read()
else:
    os.wait()
"""
