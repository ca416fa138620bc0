"""What fails is told in our own words: no warning, no traceback and no last words of Python's, however it fails."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BELLJAR = [sys.executable, "-m", "belljar"]
NOT_OURS = (
    "Warning",
    "Traceback",
    "Exception ignored",
    "never awaited",
    "was destroyed",
    "BrokenPipe",
    "internal error",
    "Errno",
)
LOUD = {"PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1", "PYTHONASYNCIODEBUG": "1"}
"""Whoever develops with Python may have these in the environment."""

MISSING = "mount --bind /dev/null $(readlink -f $(command -v {}))"
FAILING = "mount --bind /bin/false $(readlink -f $(command -v {}))"
TRUE = ["run", "--", "true"]
WAYS: dict[str, tuple[str, list[str], int]] = {
    # what happens before, the command, and its exit code
    "no bubblewrap": (MISSING.format("bwrap"), TRUE, 125),
    "a bubblewrap that fails": (FAILING.format("bwrap"), TRUE, 125),
    "no packet filter": (MISSING.format("nft"), TRUE, 125),
    "a packet filter that fails": (FAILING.format("nft"), TRUE, 125),
    "no shell": (MISSING.format("sh"), TRUE, 125),
    "no such command": (":", ["run", "--", "no-such-command"], 127),
    "no user namespaces": ("echo 0 > /proc/sys/user/max_user_namespaces", TRUE, 125),
    "no proc": ("mount -t tmpfs none /proc", TRUE, 125),
    "a proc that is covered": ("mount --bind /dev/null /proc/kmsg", TRUE, 125),
    "no policy": (":", ["run", "--policy", "nowhere.yaml", "--", "true"], 125),
    "a bad policy": ("echo 'mode: maybe' > p.yaml", ["run", "--policy", "p.yaml", "--", "true"], 125),
    "a bad option": (":", ["run", "--allow", "https://x", "--", "true"], 125),
    "an audit log that is a directory": (":", ["run", "--audit", "/", "--", "true"], 125),
    "an audit log on a full disk": (":", ["run", "--audit", "/dev/full", "--", "true"], 0),
    "no directory": (":", ["run", "--workdir", "/nowhere", "--", "true"], 125),
    "no resolver": (":", ["run", "--resolver", "nonsense", "--", "true"], 125),
    "a time limit": (":", ["run", "--timeout", "0.5", "--", "sleep", "100"], 124),
    "a full disk": ("exec >/dev/full", ["policy", "presets"], 125),
    "no doctor without proc": ("mount -t tmpfs none /proc", ["doctor", "--backend", "local"], 1),
    "no token": (":", ["token", "show", "--state", "/nowhere"], 125),
    "no server": (":", ["ps", "--server", "http://127.0.0.1:9"], 125),
}


def run(before: str, *words: str, cwd: Path, after: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", **LOUD, **variables}
    script = f'{before} && "$@"{after}' if after else f'{before} && exec "$@"'
    namespaces = ["unshare", "--user", "--map-root-user", "--mount"]
    return subprocess.run(
        [*namespaces, "bash", "-c", script, "bash", *BELLJAR, *words],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_ours(done: "subprocess.CompletedProcess[str]") -> None:
    assert [line for line in done.stderr.splitlines() if any(word in line for word in NOT_OURS)] == []


@pytest.mark.parametrize("way", WAYS)
def test_whatever_fails(privileged, tmp_path, way):
    before, words, code = WAYS[way]
    done = run(before, *words, cwd=tmp_path)
    assert_ours(done)
    assert done.returncode == code, done.stderr
    if words[0] == "run" and code == 125:
        assert done.stderr.startswith(("belljar: ", "bwrap: "))


@pytest.mark.parametrize(
    "way", ["no bubblewrap", "a bubblewrap that fails", "no such command", "a proc that is covered"]
)
def test_whatever_fails_with_a_gateway_that_has_begun_nothing(privileged, tmp_path, way):
    before, words, code = WAYS[way]
    done = run(before, "run", "--audit", "log", *words[1:], cwd=tmp_path)  # for a log, it is there before the command
    assert_ours(done)
    assert done.returncode == code


def test_a_bug_is_told_in_two_lines(privileged, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import belljar.cli.main as m\nm.LazyGroup.invoke = None\n")
    done = run(":", "run", "--", "true", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.returncode == 125
    assert done.stderr.startswith("belljar: internal error: TypeError")
    assert "BELLJAR_DEBUG=1" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def unread():
    """A pipe that nobody reads from."""
    ours, theirs = os.pipe()
    os.close(ours)
    yield theirs
    os.close(theirs)


def test_output_that_nobody_reads(tmp_path, unread):
    done = subprocess.run([*BELLJAR, "policy", "presets"], env=LOUD, stdout=unread, stderr=subprocess.PIPE, check=False)
    assert done.stderr == b""
    assert done.returncode == 141


def test_a_summary_that_nobody_reads(privileged, tmp_path, unread):
    command = [*BELLJAR, "run", "--summary", "--", "sh", "-c", "exit 3"]
    done = subprocess.run(command, cwd=tmp_path, stderr=unread, stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout) == (3, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruptions(privileged, tmp_path, number):
    command = [*BELLJAR, "run", "--audit", "log", "--", "sh", "-c", "echo began; exec sleep 1000"]
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", **LOUD}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "began\n"
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == 128 + number
    assert [word for word in NOT_OURS if word in said] == []
