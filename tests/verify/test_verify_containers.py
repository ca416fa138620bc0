"""The self-test on real engines: as root, as a user who may use the machine's Docker, and on a user's own Podman."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from belljar.backends.containers.toolbox import default_cache, open_toolbox
from belljar.verify.catalogue import OUT_OF_SCOPE
from belljar.verify.probes.kit import PROBES
from tests import privileges
from tests.engines import Engine, start_docker, users
from tests.verify.test_verify import OUTSIDE, ROOT

pytestmark = pytest.mark.long

OF_ENGINES = {"33-seen-from-outside", "71-seen-from-outside"}
"""What is not looked at from outside, since it is an engine's."""

VARIABLES = {"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}

FINDINGS = {
    "rights_kept": {"48-capabilities", "48-seccomp", "35-io-uring", "58-set-ids"},
    "limits_off": {"71-limits"},
    "memory_without_size": {"71-memory"},
    "project_unprotected": {"58-planted"},
    "not_armed": {"control-address-v4", "control-http-v6"},
}
"""What has to be found broken when a layer is off."""


@pytest.fixture(scope="module")
def caches():
    """A directory for caches in which everybody finds the toolbox: it takes a second to make."""
    path = Path(tempfile.mkdtemp(prefix="belljar-verify-caches-", dir="/var/tmp"))
    open_toolbox(default_cache({"XDG_CACHE_HOME": str(path)}))
    path.chmod(0o755)
    users.give(path)
    yield path
    shutil.rmtree(path)


class Verifier:
    """Whoever runs a program with the means to use an engine."""

    def __init__(self, engine: Engine, caches: Path, *, root: bool) -> None:
        self.engine, self._root = engine, root
        self._variables = {VARIABLES[engine.kind]: engine.url, "XDG_CACHE_HOME": str(caches), "PYTHONPATH": str(ROOT)}

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        assignments = [f"{name}={value}" for name, value in self._variables.items()]
        command = ["env", *assignments, sys.executable, *words]
        if not self._root:
            return self.engine.run_as_user(*command, workdir=self.engine.home, timeout=PATIENCE)
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)


PATIENCE = 300
SETTINGS = ["docker_engine-root", "docker_engine-user", "rootless_engine-user"]


@pytest.fixture(params=[*SETTINGS, "podman_engine-root"] if privileges.EVERY_ENGINE else SETTINGS)
def verifier(request, caches):
    engine, _, who = request.param.partition("-")
    return Verifier(request.getfixturevalue(engine), caches, root=who == "root")


def test_everything_holds(verifier):
    engine = verifier.engine
    before, document = held(engine), engine.home / "report.json"
    done = verifier.run("-m", "belljar", "verify", "--backend", engine.kind, "--json", str(document))
    assert done.stderr == ""
    report = json.loads(document.read_text())
    document.unlink()
    rows = {row["id"]: row["verdict"] for row in report["results"]}
    failed = [row for row in report["results"] if row["verdict"] not in ("holds", "out of scope")]
    assert not failed, json.dumps(failed)
    assert done.returncode == 0
    assert report["backend"] == engine.kind
    assert rows.keys() == {*PROBES, *OUTSIDE, *map(str, OUT_OF_SCOPE)}
    not_there = {"59-setuid-mounts", *OF_ENGINES, *(() if engine.rootless else ("48-user-namespace",))}
    out_of_scope = {name for name, verdict in rows.items() if verdict == "out of scope"}
    if engine.kind == "podman" and not engine.rootless:
        out_of_scope -= {"48-control-groups"}  # where there is version 1 of them
    assert out_of_scope - {"59-read-only"} == {*map(str, OUT_OF_SCOPE), *not_there}  # that depends on the user
    assert held(engine) == before


@pytest.mark.parametrize("layer", FINDINGS)
def test_a_missing_layer_is_found(docker_engine, caches, layer):
    verifier = Verifier(docker_engine, caches, root=True)
    done = verifier.run(str(ROOT / "tests/verify/sabotaged_containers.py"), layer, *FINDINGS[layer])
    assert done.returncode == 0, done.stderr
    rows = {row["id"]: row["verdict"] for row in json.loads(done.stdout)["results"]}
    assert {name for name, verdict in rows.items() if verdict == "broken"} >= FINDINGS[layer], rows


@pytest.mark.parametrize(
    "program", [Path("/usr/bin/getent"), Path("/usr/bin/python3").resolve()], ids=["tool", "python"]
)
def test_a_program_with_capabilities_is_no_failure(caches, program):
    """On most machines `ping` has one, which containers cannot have: execve(2) fails."""

    def replace_it(directory: Path) -> str:
        """Return a script that puts one with a capability over it; a mount below /usr would be refused."""
        layer = directory / "usr"
        (layer / "bin").mkdir(parents=True)
        copy = shutil.copy(program, layer / "bin")
        os.setxattr(copy, "security.capability", privileges.CAP_NET_RAW)
        return f"mount -t overlay -o lowerdir={layer}:/usr overlay /usr\n"

    with start_docker(prepare=replace_it) as engine:
        done = Verifier(engine, caches, root=False).run(
            "-m", "belljar", "verify", "--backend", "docker", "--only", "55"
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("not allowed to run: getent") == (2 if program.name == "getent" else 0)


def test_nothing_is_tried_in_a_container_that_has_a_network(docker_engine, caches):
    """What leaves it would reach the machine's own network."""
    before, verifier = held(docker_engine), Verifier(docker_engine, caches, root=True)
    done = verifier.run(str(ROOT / "tests/verify/sabotaged_containers.py"), "on_a_bridge", "31-interfaces")
    assert done.returncode == 1
    assert "its network has an interface beside loopback: eth0" in done.stderr
    assert held(docker_engine) == before


def test_without_an_engine_it_says_what_to_do():
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    command = [sys.executable, "-m", "belljar", "verify", "--backend", "docker"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert "docker is not running: there is nothing at /nonexistent/docker.sock" in done.stderr


def held(engine: Engine) -> set[str]:
    """Return the containers and images of an engine, but for the helpers' image, which is used again."""
    containers = {found["Id"] for found in engine.api.call("GET", "/containers/json?all=true")}
    images = {found["Id"]: str(found["RepoTags"]) for found in engine.api.call("GET", "/images/json")}
    return containers | {image for image, names in images.items() if "belljar-helper" not in names}
