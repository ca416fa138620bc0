"""Local sandboxes in a PID namespace that is not the machine's first, as in any container.

Part of the local suite is run there, by an init that reaps; and the whole of it, file by file, among the long tests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.backends.local.child import staging
from belljar.backends.local.identity import choose
from belljar.backends.local.launching import launch
from belljar.sandbox.files.view import view_of
from belljar.sandbox.spec import Command, SandboxSpec

ROOT = Path(__file__).parents[3]
NESTED = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
WITH_INIT = (*NESTED, "sh", "-c", '"$@" & wait $!', "sh")
OUTER_PROC = ("unshare", "--pid", "--fork", "--kill-child")
BELLJAR = (sys.executable, "-m", "belljar")

LOCAL = "tests/backends/local"
TELLING = (
    f"{LOCAL}/test_run.py::test_an_allowed_name_is_reached_and_nothing_else",
    f"{LOCAL}/test_run.py::test_no_capability_no_new_privileges_a_filter",
    f"{LOCAL}/test_backend.py::TestLocal::test_output_and_exit_code_are_the_commands",
    f"{LOCAL}/test_backend.py::TestLocal::test_a_paused_sandbox_does_nothing",
    f"{LOCAL}/test_backend.py::TestLocal::test_sandboxes_and_commands_outlive_the_backend",
)
OTHERS = {"test_nested.py", "test_in_containers.py"}
WHOLE = [
    "tests/verify/test_verify.py",
    *sorted(f"{LOCAL}/{file.name}" for file in Path(__file__).parent.glob("test_*.py") if file.name not in OTHERS),
]


def run(
    *words: str, cwd: Path, inside: tuple[str, ...] = NESTED, **variables: str
) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", **variables}
    return subprocess.run([*inside, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(TELLING, id="telling"),
        *(pytest.param((file,), id=Path(file).stem, marks=pytest.mark.long) for file in WHOLE),
    ],
)
def test_the_local_suite(privileged, chosen):
    quick = ("-q", "-m", "not long", "-p", "no:cacheprovider")
    done = run(sys.executable, "-m", "pytest", *quick, *chosen, cwd=ROOT, inside=WITH_INIT)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr


def test_only_its_own_processes_are_seen(privileged, tmp_path):
    done = run(*BELLJAR, "run", "--", "sh", "-c", "echo /proc/[0-9]*; cat /proc/1/comm", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("/proc/1 /proc/2\nbwrap\n", "")


@pytest.mark.parametrize("sealed", [True, False])
def test_bubblewrap_tells_of_the_sandbox_and_of_nobody_else(privileged, tmp_path, sealed):
    """It looks for itself in /proc by the number that it has, and that must be its own there."""
    command = Command(("sleep", "infinity"), {"PATH": "/usr/bin:/bin"}, tmp_path)
    view = view_of(SandboxSpec(), tmp_path, Path("/nonexistent"), {})
    null = os.open("/dev/null", os.O_RDWR)
    launched = launch(staging.Plan(command, view, choose(), (null, null, 2), sealed=sealed))
    launched.identify()
    launched.settle()
    launched._channel.send(staging.GO)
    told = json.loads(launched._status.readline())
    _, first = launched.processes()
    seen = {name: Path(f"/proc/{first}/ns/{name}").stat().st_ino for name in ("pid", "mnt", "uts", "cgroup")}
    launched.kill()
    launched.close()
    os.close(null)
    if launched.listeners is not None:
        launched.listeners.close()
    assert {name: told[f"{name}-namespace"] for name in seen} == seen


@pytest.mark.parametrize(
    ("inside", "said"),
    [
        (OUTER_PROC, "/proc is that of another PID namespace"),
        (("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"), "/proc is not there"),
    ],
)
def test_without_a_proc_of_ours_nothing_starts(privileged, tmp_path, inside, said):
    done = run(*BELLJAR, "run", "--", "echo", "started", cwd=tmp_path, inside=inside)
    assert (done.returncode, done.stdout) == (125, "")
    assert said in done.stderr
    assert "mount -t proc proc /proc" in done.stderr


COVERED = "mount --bind /dev/null /proc/kmsg"


@pytest.mark.parametrize(
    "who", [["unshare", "--user", "--map-root-user", "--mount"], ["unshare", "--mount"]], ids=["user", "root"]
)
@pytest.mark.parametrize("options", [[], ["--no-network-isolation"]], ids=["sealed", "not sealed"])
def test_what_containers_cover_in_proc_is_asked_for(privileged, tmp_path, who, options):
    """A /proc of the container's own would show all that runs there, so there is no sandbox."""
    inside = (*who, "sh", "-c", f'{COVERED} && exec "$@"', "sh")
    done = run(*BELLJAR, "run", *options, "--", "echo", "started", cwd=tmp_path, inside=inside)
    assert (done.returncode, done.stdout) == (125, "")
    assert "the kernel mounts no /proc for a sandbox: Operation not permitted" in done.stderr
    assert "Parts of /proc are covered here" in done.stderr
    told = run(*BELLJAR, "doctor", "--backend", "local", cwd=tmp_path, inside=inside)
    assert told.returncode == 1
    assert "Parts of /proc are covered here" in told.stdout


def test_a_pod_is_told_what_a_pod_is_given(privileged, tmp_path):
    inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f'{COVERED} && exec "$@"', "sh")
    done = run(*BELLJAR, "run", "--", "true", cwd=tmp_path, inside=inside, KUBERNETES_SERVICE_HOST="192.0.2.1")
    assert "Have them uncovered: procMount: Unmasked (in a pod with hostUsers: false)" in done.stderr
    assert "runAsUser: 1000" in done.stderr
    page = (ROOT / "docs/in-containers.md").read_text()
    assert [text for text in ("procMount: Unmasked", "hostUsers: false", "runAsUser: 1000") if text not in page] == []
