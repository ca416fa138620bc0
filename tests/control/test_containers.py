"""Servers with containers: engines that are not there, go and come back, and what becomes of sandboxes meanwhile."""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from belljar.backends.containers.late import LateBackend
from belljar.runtime import housekeeping
from belljar.testing.memory import MemoryBackend, MemoryWorld
from tests import engines
from tests.control.servers import Server, problem, until
from tests.engines import BUSYBOX

pytestmark = pytest.mark.long

MEMORY = 64 << 20
HOG = "x=0123456789abcdef; while :; do x=$x$x; done"


@pytest.fixture(scope="session")
def place():
    """A directory with toolboxes; pytest's own are below one that is closed to others."""
    path = Path(tempfile.mkdtemp(prefix="belljar-servers-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


class ContainerServer(Server):
    """A server with Docker, which its environment leads to."""

    environment: Mapping[str, str] = {}

    def backends(self):
        return {
            "memory": MemoryBackend(self.world),
            "docker": LateBackend("docker", self.state / "docker", self.environment),
        }

    def container(self, **body):
        return self.sandbox(backend="docker", image=BUSYBOX, **body)

    def run(self, jar, script):
        return self.client.post(self.path(jar, "/exec"), json={"command": ["sh", "-c", script]}).json()


@pytest.fixture
def start(tmp_path, place, monkeypatch):
    """Starts servers on one state directory, one after the other, for an engine at some socket."""
    monkeypatch.setattr(housekeeping, "_LOOK_SECONDS", 0.05)
    world = MemoryWorld()
    started: list[ContainerServer] = []

    def start(engine_socket=tmp_path / "nowhere.sock"):
        if started:
            started[-1].stop()
        environment = {"DOCKER_HOST": f"unix://{engine_socket}", "XDG_CACHE_HOME": str(place)}
        monkeypatch.setattr(ContainerServer, "environment", environment)
        started.append(ContainerServer(tmp_path / "state", world))
        return started[-1]

    yield start
    started[-1].stop()


@pytest.fixture
def containers(docker_engine):
    """Returns what there is on the engine. There was nothing before, and is to be nothing afterwards."""

    def found() -> list[str]:
        return [each["Id"] for each in docker_engine.api.call("GET", "/containers/json?all=true")]

    assert found() == []
    yield found
    assert found() == []


def test_a_container_is_a_sandbox_like_any_other(start, docker_engine, containers):
    server = start(docker_engine.socket)
    jar = server.container(read_only=True)
    told = server.client.get(server.path(jar)).json()
    assert (told["status"], told["image"]) == ("running", BUSYBOX)
    assert (told["read_only"], told["isolation"]) == (True, "sealed")
    assert server.run(jar, "echo hello; touch /new || echo closed")["stdout"] == "hello\nclosed\n"
    assert server.client.put(server.path(jar, "/files?path=/tmp/a"), content=b"content").status_code == 204
    assert server.client.get(server.path(jar, "/files?path=/tmp/a")).content == b"content"
    assert server.client.post(server.path(jar, "/pause")).json()["status"] == "paused"
    assert server.client.post(server.path(jar, "/resume")).json()["status"] == "running"
    assert server.client.delete(server.path(jar)).status_code == 204


def test_want_of_memory_is_told_as_such(start, docker_engine, containers):
    server = start(docker_engine.socket)
    jar = server.container(limits={"memory_bytes": MEMORY})
    quiet, hog = server.run(jar, "true"), server.run(jar, HOG)
    assert (quiet["exit_code"], quiet["out_of_memory"]) == (0, False)
    assert (hog["exit_code"], hog["out_of_memory"]) == (137, True)
    assert server.run(jar, "kill -9 $$")["out_of_memory"] is False, "that was before"
    server.client.delete(server.path(jar))


def test_without_an_engine_everything_else_is_served(start):
    server = start()
    told = problem(
        server.client.post("/sandboxes", json={"backend": "docker", "image": BUSYBOX}), 503, "machine_unable"
    )
    assert "docker is not running" in told["detail"]
    assert "systemctl start docker" in told["remedy"]
    assert server.client.get("/sandboxes").json()["sandboxes"] == [], "nothing is left of it"
    assert not (server.state / "docker").exists()
    assert server.status(server.sandbox()) == "running"


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        pytest.param({}, "unmakeable", "name one", id="no image"),
        pytest.param({"image": "nowhere:none"}, "unmakeable", "docker pull nowhere:none", id="no such image"),
        pytest.param({"image": BUSYBOX, "isolation": "none"}, "invalid_request", '"sealed"', id="unknown isolation"),
        pytest.param({"image": BUSYBOX, "read_only": "yes"}, "invalid_request", "boolean", id="no boolean"),
    ],
)
def test_what_cannot_be_made_is_refused_and_leaves_nothing(start, docker_engine, containers, body, code, said):
    server = start(docker_engine.socket)
    told = problem(server.client.post("/sandboxes", json={"backend": "docker", **body}), 400, code)
    assert said in f"{told['detail']}; {told['remedy']}"
    assert server.client.get("/sandboxes").json()["sandboxes"] == []


def test_the_socket_of_the_engine_is_never_shown_inside(start, docker_engine, containers):
    server = start(docker_engine.socket)
    body = {"backend": "docker", "image": BUSYBOX, "mounts": [{"source": str(docker_engine.socket)}]}
    told = problem(server.client.post("/sandboxes", json=body), 400, "unmakeable")
    assert "the socket of a container engine" in told["detail"]


def test_who_may_not_kill_from_outside_has_the_engine_end_what_defies_its_time(start, docker_engine, monkeypatch):
    """Engines read these files before they run anything inside, and wait for whoever writes to them."""

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    server = start(docker_engine.socket)
    jar = server.container()
    script = "cd /etc; rm -f passwd group; mkfifo passwd group; while :; do sleep 0.1; done"
    body = {"command": ["sh", "-c", script], "timeout": 1}
    ended = server.client.post(server.path(jar, "/exec"), json=body, timeout=60).json()
    assert (ended["exit_code"], ended["timed_out"]) == (137, True)
    until(lambda: server.status(jar) == "dead")
    assert server.client.delete(server.path(jar)).status_code == 204


def test_a_container_that_was_killed_is_noticed(start, docker_engine, containers):
    server = start(docker_engine.socket)
    jar = server.container()
    [container] = containers()
    docker_engine.api.call("POST", f"/containers/{container}/kill")
    until(lambda: server.status(jar) == "dead")
    problem(server.client.post(server.path(jar, "/exec"), json={"command": ["true"]}), 410, "sandbox_gone")
    assert server.client.delete(server.path(jar)).status_code == 204


def test_another_life_of_the_server_adopts_and_sweeps(start, docker_engine, containers):
    server = start(docker_engine.socket)
    alive, dead = server.container(), server.container()
    docker_engine.api.call("POST", f"/containers/{containers()[0]}/kill")
    server = start(docker_engine.socket)
    assert [server.status(jar) for jar in (alive, dead)] == ["running", "gone"]
    assert server.run(alive, "echo hello")["stdout"] == "hello\n"
    assert len(containers()) == 1
    server.client.delete(server.path(alive))


def test_a_server_that_was_killed_adopts_its_containers(machine, docker_engine, containers, place):
    machine.kill()
    machine.environment = {"DOCKER_HOST": docker_engine.url, "XDG_CACHE_HOME": str(place)}
    machine.start()
    policy = {"mode": "block-all", "egress": {"allowed_domains": ["plain.test"]}}
    jar = machine.sandbox(policy, backend="docker", image=BUSYBOX)
    fetch = "wget -q -O- http://plain.test/; wget -q -O- http://evil.test/"
    fetched = machine.run(jar, "sh", "-c", fetch)["stdout"]
    assert fetched.startswith("plain.test")
    machine.kill()
    machine.start()
    assert machine.call("GET", f"/sandboxes/{jar}")["status"] == "running"
    assert machine.run(jar, "sh", "-c", fetch)["stdout"] == fetched
    machine.call("DELETE", f"/sandboxes/{jar}")


def test_sandboxes_of_an_engine_that_is_away_are_closed_until_it_is_back(start, docker_engine, containers):
    server = start(docker_engine.socket)
    jar, unwanted = server.container(), server.container()
    hidden = docker_engine.socket.rename(docker_engine.socket.with_suffix(".away"))
    try:
        server = start(docker_engine.socket)
        told = server.client.get(server.path(jar)).json()
        assert told["status"] == "closed"
        assert "docker is not running" in told["detail"]
        problem(server.client.post(server.path(jar, "/exec"), json={"command": ["true"]}), 409, "sandbox_not_ready")
        problem(server.client.delete(server.path(unwanted)), 503, "machine_unable")
    finally:
        hidden.rename(docker_engine.socket)
    until(lambda: server.status(jar) == "running")
    until(lambda: server.status(unwanted) == "gone")
    assert server.run(jar, "echo hello")["stdout"] == "hello\n"
    assert server.client.delete(server.path(jar)).status_code == 204


def test_an_engine_that_is_killed_and_started_again(start):
    with engines.start_docker() as engine:
        engines.make_image(engine, BUSYBOX, engines.busybox())
        server = start(engine.socket)
        jar = server.container()
        engine.kill()
        told = problem(server.client.post(server.path(jar, "/exec"), json={"command": ["true"]}), 503, "machine_unable")
        assert "docker is not running" in told["detail"]
        assert server.status(jar) == "running", "nobody knows yet"
        engine.start()
        until(lambda: server.status(jar) == "dead")
        assert server.client.delete(server.path(jar)).status_code == 204
        assert engine.api.call("GET", "/containers/json?all=true") == []
