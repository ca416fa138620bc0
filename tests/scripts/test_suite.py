"""The gate's own mechanism, on small suites of tests that misbehave."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from threading import Thread

import pytest

from scripts import check, suite
from scripts.contain import STOPPED, TIMED_OUT, UNCLEAN
from scripts.gate import GATE
from scripts.suite import Outcome, Suite

ROOT = Path(__file__).parents[2]
TIMEOUT = 60
FOREVER = "while True: time.sleep(1000)"

FAILS_ONCE = """
def test_fails_once(once):
    print("printed before it failed")
    assert once, "this was the first time"
"""
ALWAYS_FAILS = """
def test_always_fails():
    print("printed by what always fails")
    assert 6 * 7 == 41
"""
PASSES = """
def test_passes():
    pass
"""


class Misbehaving:
    """A suite in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.tests, self.cache = directory / "tests", directory / "cache"
        self.tests.mkdir()
        self.cache.mkdir()
        self.write("conftest.py", f"""
            import pytest
            from pathlib import Path

            @pytest.fixture
            def once(request):
                mark = Path({str(directory)!r}, f"{{request.node.name}}.mark")
                yield mark.exists()
                mark.touch()
            """)  # fmt: skip

    def write(self, name: str, *texts: str) -> None:
        (self.tests / name).write_text("\n".join(dedent(text) for text in texts))

    def suite(self, *options: str) -> Suite:
        plugins = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest")]
        ours = ["-c", str(ROOT / "pyproject.toml"), f"--rootdir={self.tests}", *plugins, *options]
        return Suite(self.cache, [str(self.tests)], time.monotonic() + 10 * TIMEOUT, root=self.tests, options=ours)

    def run(self, *options: str) -> Outcome:
        """Run it as the gate does."""
        suite = self.suite(*options)
        outcome = suite.run()
        suite.retry(outcome)
        return outcome


@pytest.fixture
def misbehaving(tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "WORKERS", 2)
    return Misbehaving(tmp_path)


def test_one_that_fails_once_is_flaky_and_one_that_always_fails_is_red(misbehaving, capsys, monkeypatch):
    misbehaving.write("test_it.py", FAILS_ONCE, ALWAYS_FAILS, PASSES)
    outcome = misbehaving.run()
    assert outcome.record.passed == {"test_it.py::test_passes"}
    assert list(outcome.failed) == ["test_it.py::test_always_fails"]
    assert "assert (6 * 7) == 41" in outcome.failed["test_it.py::test_always_fails"]
    [(test, kept)] = outcome.flaky.items()
    assert test == "test_it.py::test_fails_once"
    assert "this was the first time" in kept.read_text()
    assert "printed before it failed" in kept.read_text()
    assert kept.parent == misbehaving.cache / "flaky"
    assert not outcome.is_green

    monkeypatch.setattr(check, "ROOT", misbehaving.cache)
    check.report([], "tests", outcome)
    lines = capsys.readouterr().out.split("retrying alone", 2)[-1].splitlines()
    assert lines.index("FAILED test_it.py::test_always_fails") < lines.index("printed by what always fails")
    assert lines.index("printed by what always fails") < lines.index("Summary")
    assert "1 failed, 1 flaky, 0 skipped" in lines[-2]
    assert lines[-1] == f"  flaky: {test}: its first failure is in {kept.relative_to(misbehaving.cache)}"


def test_with_nothing_but_flaky_tests_it_is_green_unless_there_are_too_many(misbehaving, monkeypatch):
    misbehaving.write("test_it.py", FAILS_ONCE)
    assert misbehaving.run().is_green
    for mark in misbehaving.tests.parent.glob("*.mark"):
        mark.unlink()
    monkeypatch.setattr(suite, "MAX_FLAKY", 0)
    outcome = misbehaving.run()
    assert outcome.problem == "1 tests are flaky, and at most 0 may be"
    assert not outcome.is_green


def test_a_failure_that_is_not_retried_is_kept_in_full(misbehaving, monkeypatch):
    misbehaving.write("test_it.py", ALWAYS_FAILS)
    monkeypatch.setattr(suite, "MAX_RETRIES", 0)
    [text] = misbehaving.run().failed.values()
    assert "assert (6 * 7) == 41" in text
    assert text.endswith("It was not retried.")


def test_what_fails_in_set_up_or_clean_up_has_failed(misbehaving):
    misbehaving.write("test_it.py", """
        import pytest

        @pytest.fixture
        def bad_start():
            raise RuntimeError("cannot start")

        @pytest.fixture
        def bad_end():
            yield
            raise RuntimeError("cannot end")

        def test_start(bad_start): pass
        def test_end(bad_end): pass
        """)  # fmt: skip
    outcome = misbehaving.run()
    assert "cannot start" in outcome.failed["test_it.py::test_start"]
    assert "cannot end" in outcome.failed["test_it.py::test_end"]
    assert not outcome.record.passed


def test_of_what_a_failed_test_has_printed_the_end_is_kept(misbehaving):
    misbehaving.write("test_it.py", "def test_it():\n    print('first', 'x' * 10 ** 6, 'last')\n    raise ValueError")
    text = misbehaving.run().failed["test_it.py::test_it"]
    assert "ValueError" in text
    assert "last" in text
    assert "first x" not in text
    assert len(text) < 10**5


def test_a_run_that_ends_with_an_error_of_its_own_is_red(misbehaving):
    """Python exits with 1 then, as pytest does if a test has failed."""
    misbehaving.write("conftest.py", "def pytest_unconfigure(): raise OSError")
    misbehaving.write("test_it.py", PASSES)
    outcome = misbehaving.run()
    assert not outcome.failed
    assert outcome.problem == "pytest ended with exit code 1: see its output above"


@pytest.mark.parametrize("text", ["import no_such_module", "def test_it(:", ""])
def test_a_run_without_tests_is_red(misbehaving, text):
    misbehaving.write("test_it.py", text)
    outcome = misbehaving.run()
    assert outcome.problem is not None
    assert not outcome.is_green


def test_one_that_hangs_is_ended_with_its_stacks_and_what_it_started_is_gone_before_the_retry(misbehaving):
    """It hangs in C, in its clean-up; and it leaves a process with namespaces of its own, as a daemon would."""
    misbehaving.write("test_it.py", """
        import subprocess, threading, time
        from pathlib import Path
        import pytest

        PID = Path(__file__).with_name("pid")

        def sleep_in_another_thread():
            time.sleep(1000)

        @pytest.fixture
        def never_ends():
            yield
            threading.Thread(target=sleep_in_another_thread, daemon=True).start()
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()

        @pytest.fixture
        def retried():
            return PID.exists()

        def test_hangs(retried, request):
            if not retried:
                request.getfixturevalue("never_ends")
                script = "mount -t tmpfs none /mnt && echo $$ >$1 && exec sleep 1000"
                new = ["setsid", "unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", script, "sh"]
                subprocess.Popen([*new, PID], start_new_session=True)
                while not PID.exists() or not PID.read_text().strip():
                    time.sleep(0.01)
                raise AssertionError("failed before it hung")
            assert not Path("/proc", PID.read_text().strip()).exists()
        """)  # fmt: skip
    outcome = misbehaving.run("--limit=5")
    assert outcome.is_green, outcome
    text = outcome.flaky["test_it.py::test_hangs"].read_text()
    assert "Timeout (0:00:05)!" in text
    assert "in sleep_in_another_thread" in text
    assert "in never_ends" in text


def test_one_that_always_hangs_is_red_and_the_others_are_run(misbehaving):
    misbehaving.write("test_it.py", f"import time\ndef test_hangs():\n    {FOREVER}\n", PASSES)
    outcome = misbehaving.run("--limit=5")
    assert outcome.record.passed == {"test_it.py::test_passes"}
    assert list(outcome.failed) == ["test_it.py::test_hangs"]
    assert "Timeout (0:00:05)!" in outcome.failed["test_it.py::test_hangs"]


def test_a_run_that_is_ended_names_what_was_running(misbehaving):
    misbehaving.write("test_it.py", f"import time\ndef test_hangs():\n    {FOREVER}\n")
    suite, outcomes = misbehaving.suite(), list[Outcome]()
    thread = Thread(target=lambda: outcomes.append(suite.run()))
    thread.start()
    given_up = time.monotonic() + TIMEOUT
    while not any(path.read_text() for path in misbehaving.cache.glob("record/running/*")):
        assert time.monotonic() < given_up
        time.sleep(0.01)
    suite.stop()
    thread.join(TIMEOUT)
    [outcome] = outcomes
    suite.retry(outcome)
    assert outcome.problem == "the run was ended by a signal while it ran test_it.py::test_hangs"
    assert not outcome.is_green


def test_a_time_limit_that_is_reached_while_a_test_is_retried_is_named(misbehaving):
    misbehaving.write("test_it.py", f"import time\ndef test_it(once):\n    assert once\n    {FOREVER}\n")
    suite = misbehaving.suite()
    outcome = suite.run()
    suite._deadline = time.monotonic() + 5
    suite.retry(outcome)
    assert outcome.problem.startswith("the run exceeded its time limit while it ran ")
    [text] = outcome.failed.values()
    assert text.endswith("It was not retried.")


def test_a_run_that_is_ended_before_it_has_begun_is_red(misbehaving):
    misbehaving.write("test_it.py", PASSES)
    suite = misbehaving.suite()
    suite.stop()
    outcome = suite.run()
    assert outcome.problem == "the run was ended by a signal while it ran no test"
    assert not outcome.record.passed


def test_the_gate_names_tests_that_exist():
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", *GATE]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {line for line in done.stdout.splitlines() if "::" in line} == set(GATE)


class TestContain:
    """What runs a command and leaves nothing behind."""

    def test_the_exit_code_is_the_commands(self):
        assert contained("sh", "-c", "exit 7").returncode == 7
        assert contained("sh", "-c", "kill -ABRT $$").returncode == 128 + signal.SIGABRT

    def test_a_command_that_takes_too_long_is_ended(self):
        assert contained("sleep", "1000", limit=0.1).returncode == TIMED_OUT

    def test_a_command_is_ended_when_the_caller_closes_the_pipe(self):
        """As it does when it is killed, too."""
        words = [
            sys.executable,
            "-m",
            "scripts.contain",
            str(10 * TIMEOUT),
            "sh",
            "-c",
            "cat; echo no input; sleep 1000",
        ]
        with subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin
            assert process.stdout
            assert process.stdout.readline() == "no input\n"
            process.stdin.close()
            assert "left behind, and ended: " in process.stdout.read()
        assert process.returncode == STOPPED

    def test_what_cannot_be_ended_is_an_error(self, tmp_path):
        script = """
            import sys
            from scripts import contain
            contain.KILL_TIMEOUT = 0
            sys.exit(contain.main(1000, ["sh", "-c", "sleep 34567 >/dev/null 2>&1 & echo $!"]))
            """
        words = [sys.executable, "-c", dedent(script)]
        done = subprocess.run(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        pid = int(done.stdout.splitlines()[0])
        os.kill(pid, signal.SIGKILL)
        assert done.returncode == UNCLEAN
        assert f"left behind, and could not be ended: [{pid}]" in done.stdout

    def test_orphans_are_reaped_while_the_command_runs(self, tmp_path):
        script = (
            "setsid true & orphan=$!; while kill -0 $orphan; do wait; done; (sleep 0 & echo $! >$1); pid=$(cat $1); \
            while [ -e /proc/$pid ]; do :; done"
        )
        assert contained("sh", "-c", script, "sh", tmp_path / "pid").returncode == 0

    def test_what_is_left_is_ended_and_named(self):
        script = """
            import subprocess, sys
            if sys.argv[1:]:
                subprocess.run([sys.executable, "-c", sys.argv[1]])
            subprocess.Popen(["sleep", "23456" if sys.argv[1:] else "12345"], start_new_session=True)
            """
        done = contained(sys.executable, "-c", dedent(script), dedent(script))
        assert done.returncode == 0
        left = sorted(line for line in done.stdout.splitlines() if "left behind" in line)
        assert left == ["left behind, and ended: sleep 12345", "left behind, and ended: sleep 23456"]
        assert not [pid for pid in processes() if command_line(pid).startswith(b"sleep\x0012345")]

    def test_a_sandbox_and_its_control_group_are_removed(self, tmp_path, privileged):
        script = """
            cd $1
            $2 -m belljar run --no-network-isolation -- sh -c 'echo >begun; sleep 12345' &
            until [ -s begun ]; do sleep 0.01; done
            find /sys/fs/cgroup -name "belljar-$!-*"
            """
        done = contained("sh", "-c", dedent(script), "sh", tmp_path, sys.executable)
        groups = [Path(line) for line in done.stdout.splitlines() if line.startswith("/")]
        assert groups
        assert "left behind, and ended:" in done.stdout
        assert not [group for group in groups if group.exists()]

        groups[0].mkdir()  # what is left if the process that removes it is killed first
        other = groups[0].with_name(f"belljar-{os.getpid()}-of-a-live-process")
        other.mkdir()
        contained("true")
        assert (groups[0].exists(), other.exists()) == (False, True)
        other.rmdir()

    def test_a_keeper_takes_its_engine_away_itself(self, tmp_path, privileged):
        """Its owner is killed, and another process holds its input open."""
        directory = tmp_path / "engine"
        directory.mkdir()
        keeper = ROOT / "tests/engines/keeper.py"
        script = f"""
            import subprocess, sys
            keeper = subprocess.Popen([sys.executable, {str(keeper)!r}, {str(directory)!r}],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            keeper.stdin.write(b'{{"prepare": "true"}}\\n')
            keeper.stdin.flush()
            keeper.stdout.readline()
            subprocess.Popen(["sleep", "12345"], stdout=keeper.stdin, start_new_session=True)
            import os
            os._exit(0)
            """
        done = contained(sys.executable, "-c", dedent(script))
        assert done.stdout.splitlines() == ["left behind, and ended: sleep 12345"]
        assert not directory.exists()


def contained(*command: object, limit: float = 10 * TIMEOUT) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, "-m", "scripts.contain", str(limit), *map(str, command)]
    return subprocess.run(
        words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )


def processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
