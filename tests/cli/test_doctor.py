"""`belljar doctor`: whose absence is a note, and whose a failure."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import privileges

BELLJAR = str(Path(sys.executable).parent / "belljar")
NOWHERE = {"DOCKER_HOST": "unix:///none/docker.sock", "CONTAINER_HOST": "unix:///none/podman.sock"}


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/nonexistent", **variables}
    return subprocess.run([BELLJAR, "doctor", *arguments], env=environment, capture_output=True, text=True, check=False)


def states(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return what was looked at, and how it is."""
    assert done.stderr == ""
    rows = [re.split(r" {2,}", line) for line in done.stdout.splitlines()[1:]]
    return {what: state for state, what, *_ in rows}


@pytest.mark.parametrize(("backend", "unit"), [("docker", "docker"), ("podman", "podman.socket")])
def test_an_engine_that_is_asked_for_has_to_be_there(backend, unit):
    done = doctor("--backend", backend, **NOWHERE)
    assert done.returncode == 1
    assert states(done) == {backend: "missing"}
    assert f"sudo systemctl start {unit}" in done.stdout


def test_an_engine_that_is_not_asked_for_does_not(privileged):
    done = doctor(**NOWHERE)
    found = states(done)
    assert (found["docker"], found["podman"], found["a sandbox"]) == ("note", "note", "ok")
    assert done.returncode == 0


def test_the_local_backend_alone(privileged):
    done = doctor("--backend", "local", **NOWHERE)
    assert "a sandbox" in states(done)
    assert "docker" not in states(done)
    assert done.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("name", ["docker_engine", *(["rootless_engine"] if privileges.EVERY_ENGINE else [])])
def test_an_engine_that_is_there(request, name):
    engine = request.getfixturevalue(name)
    variable = "DOCKER_HOST" if engine.kind == "docker" else "CONTAINER_HOST"
    done = engine.run_as_user("env", f"{variable}={engine.url}", BELLJAR, "doctor", "--backend", engine.kind)
    found = states(done)
    assert (found[engine.kind], found[f"{engine.kind}: a sandbox"]) == ("ok", "ok")
    assert done.returncode == 0


def test_a_setting_that_keeps_user_namespaces_from_users(privileged):
    """As Ubuntu has it, and with it the runners of GitHub."""
    name = "kernel.apparmor_restrict_unprivileged_userns"
    place = "/proc/sys/" + name.replace(".", "/")
    script = f'mount -t tmpfs settings {Path(place).parent} && echo 1 > {place} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", BELLJAR, "doctor"]
    done = subprocess.run([*command, "--backend", "local"], capture_output=True, text=True, check=False)
    assert states(done)[name] == "note"
    assert f"sudo sysctl -w {name}=0" in done.stdout


def test_help_imports_no_backend():
    command = [sys.executable, "-X", "importtime", "-m", "belljar", "doctor", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--backend" in done.stdout
    assert "belljar.backends.registry" in done.stderr
    assert not re.search(r"belljar\.backends\.(local|containers|interface)", done.stderr)
