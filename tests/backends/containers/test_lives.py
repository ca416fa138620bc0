"""Everything that dies: runs, servers, containers and engines. What is left is closed, is found, and is taken away."""

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from belljar.backends.containers import leftovers, sealing
from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.interface import GoneError, LostError, SandboxStatus, State
from belljar.gateway.listeners import Listeners
from belljar.linux.lives import has_ended
from belljar.linux.nft import perimeter
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.conformance import run, started
from tests import engines, privileges
from tests.backends.containers.conftest import PATIENCE, PIPES, Cli, until
from tests.engines import BUSYBOX
from tests.engines.api import ApiError
from tests.universe import Universe, addresses

pytestmark = pytest.mark.long

MANY = int(os.environ.get("BELLJAR_CONTAINERS", "20"))

TRYING = f"""
echo ready
while :; do
    printf 'GET / HTTP/1.0\\r\\nHost: {addresses.PUBLIC}\\r\\n\\r\\n' | nc -w 5 {addresses.PUBLIC} 80 >>tried 2>&1
    echo tried >>tried
done
"""


@contextmanager
def running(cli: Cli, script: str, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """Have a script run that has said that it is ready, and be rid of it."""
    with cli.start(*words, "--", "sh", "-c", script, **PIPES) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        try:
            yield process
        finally:
            process.kill()


def container_of(cli: Cli, process: "subprocess.Popen[str]") -> str:
    """Return the name of the container that a run has."""
    found = cli.engine.api.call("GET", "/containers/json?all=true")
    [name] = [
        name for names in found for name in names["Names"] if f"-{process.pid}-" in name and name.endswith("-run")
    ]
    return str(name).removeprefix("/")


class TestARun:
    def test_that_is_killed_leaves_a_closed_container_which_the_next_run_takes_away(self, docker_as_user):
        cli, tried, before = docker_as_user, docker_as_user.workdir / "tried", len(docker_as_user.left())
        with running(cli, "echo ready; read line; echo still here: $line") as survivor:
            with running(cli, TRYING, "--allow-cidr", addresses.PUBLIC) as killed:
                until(lambda: tried.exists() and " 200 " in tried.read_text())
                killed.kill()
                killed.wait()
            tried.unlink()
            cli.universe.forget()
            until(lambda: tried.exists() and tried.read_text().count("tried") > 2)
            assert " 200 " not in tried.read_text()
            assert cli.universe.wire.contacts() == set()
            until(lambda: len(cli.left()) == before + 4)
            done = cli.run("--", "true")
            assert (done.returncode, done.stderr) == (0, "")
            until(lambda: len(cli.left()) == before + 2)
            assert survivor.communicate("you see\n", timeout=PATIENCE)[0] == "still here: you see\n"
            assert survivor.returncode == 0

    def test_of_others_is_left_alone(self, docker_as_root):
        api, engine = docker_as_root.engine.api, Engine("docker", docker_as_root.engine.socket)
        with running(docker_as_root, "echo ready; read line") as process:
            name = container_of(docker_as_root, process)
            labels = api.call("GET", f"/containers/{name}/json")["Config"]["Labels"]
        pid, started_at, boot, namespace = json.loads(labels[leftovers.LIFE])
        theirs = {**labels, leftovers.LIFE: json.dumps([pid, started_at, boot, namespace + 1])}
        api.call("POST", f"/containers/create?name={name}-theirs", {"Image": BUSYBOX, "Labels": theirs, "Cmd": ["sh"]})
        assert leftovers.sweep(engine, docker_as_root.runs) == 1
        assert leftovers.sweep(engine, docker_as_root.runs) == 0
        api.call("DELETE", f"/containers/{name}-theirs")

    @pytest.mark.parametrize("how", ["remove", "restart"])
    def test_whose_container_is_ended_by_somebody_else(self, docker_as_root, how):
        with running(docker_as_root, TRYING) as process:
            assert_says_that_it_was_ended(docker_as_root, process, how)

    def test_whose_container_is_ended_by_somebody_else_on_podman(self, rootless_podman):
        with running(rootless_podman, TRYING) as process:
            assert_says_that_it_was_ended(rootless_podman, process, "kill")

    def test_that_is_killed_while_the_container_is_made_leaves_nothing_that_is_not_found(self, docker_as_user):
        for number in (6, 7, 11, 12):
            assert ended_at_a_request(docker_as_user, number, signal.SIGKILL) == -signal.SIGKILL
        assert docker_as_user.run("--", "echo", "ran").stdout == "ran\n"

    def test_that_is_told_to_end_ends_at_any_time_and_leaves_nothing(self, docker_as_root):
        before = docker_as_root.left()
        for number in (5, 11, 12):
            assert ended_at_a_request(docker_as_root, number, signal.SIGTERM) == 128 + signal.SIGTERM
            until(lambda: docker_as_root.left() == before)


SENDING_A_SIGNAL = """
import os, sys
from belljar.backends.containers.engine.client import Engine
from belljar.cli.main import main

def counted(self, *arguments, converse=Engine._converse, **options):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), number)
    return converse(self, *arguments, **options)

left, number = int(sys.argv.pop(1)), int(sys.argv.pop(1))
Engine._converse = counted
main()
"""


def ended_at_a_request(cli: Cli, count: int, number: signal.Signals) -> int:
    """Run something that sends itself a signal before it asks the engine for the nth time; return its exit code."""
    argv = cli.words("--", "sleep", "1000")
    at = argv.index("-m")
    argv[at : at + 2] = ["-P", "-c", SENDING_A_SIGNAL, str(count), str(number.value)]
    done = subprocess.run(argv, env=cli.environment(), cwd=cli.workdir, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode


def assert_says_that_it_was_ended(cli: Cli, process: "subprocess.Popen[str]", how: str) -> None:
    call, path = cli.engine.api.call, f"/containers/{container_of(cli, process)}"
    if how == "remove":
        call("DELETE", f"{path}?force=true")
    else:
        with suppress(ApiError):  # between its end and a new beginning it may be taken away
            call("POST", f"{path}/{how}?t=0")
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 125
    assert "somebody else has ended the container" in said
    assert "Traceback" not in said


@pytest.fixture
def place():
    """A directory of our own; pytest's are below one that is closed to others."""
    path = Path(tempfile.mkdtemp(prefix="belljar-lives-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def open_backend(docker_engine, place, cache) -> Callable[[], ContainerBackend]:
    return lambda: ContainerBackend(Engine("docker", docker_engine.socket), place, cache / "belljar/toolbox")


@pytest.fixture
def backend(open_backend):
    with open_backend() as backend:
        yield backend
        for found in backend.sandboxes():
            backend.destroy(found.sandbox)


WANTED = SandboxSpec(image=BUSYBOX)


def knock(backend: ContainerBackend, listeners: Listeners) -> bool:
    """Have the agent dial an address, and tell whether that is heard at the doors."""
    with started(backend, "jar", "nc", "-w", "1", addresses.PUBLIC, "80"):
        ready, _, _ = select.select(listeners.tcp, [], [], PATIENCE)
        for listener in ready:
            listener.accept()[0].close()
    return bool(ready)


class TestAServer:
    @pytest.mark.parametrize("by", ["entering", "a helper"])
    def test_that_crashed_comes_back_to_its_sandboxes(self, backend, open_backend, monkeypatch, by):
        if by == "a helper":
            monkeypatch.setattr(sealing, "_namespace", no_way_in)
        doors = backend.create("jar", WANTED)
        assert knock(backend, doors)
        doors.close()
        assert run(backend, "jar", "nc", "-w", "1", addresses.PUBLIC, "80").code != 0
        with open_backend() as again:
            assert again.sandboxes() == [SandboxStatus("jar", State.RUNNING)]
            doors = again.adopt("jar")
            assert knock(again, doors)
            doors.close()

    def test_finds_a_container_that_was_started_again_closed(self, docker_engine, backend):
        doors = backend.create("jar", WANTED)
        path = f"/containers/{backend._containers.name('jar')}"
        docker_engine.api.call("POST", f"{path}/kill")
        assert backend.sandboxes() == [SandboxStatus("jar", State.DEAD)]
        with pytest.raises(GoneError):
            run(backend, "jar", "true")
        docker_engine.api.call("POST", f"{path}/start")
        assert run(backend, "jar", "cat", "/proc/net/route").out.count("\n") == 1
        assert run(backend, "jar", "nc", "-w", "1", addresses.PUBLIC, "80").code != 0
        assert select.select([*doors], [], [], 0)[0] == []
        doors.close()
        doors = backend.adopt("jar")
        assert knock(backend, doors)
        doors.close()


def no_way_in(*_: object) -> None:
    raise PermissionError("as for everybody who is not root")


@pytest.fixture(scope="module")
def own_world(privileged) -> Iterator[tuple[Universe, engines.Engine]]:
    """An engine that may be stopped, where the gateway is."""
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    with Universe() as universe, engines.start_docker(universe.gateway.namespace) as engine:
        engines.make_image(engine, BUSYBOX, engines.busybox())
        yield universe, engine


@pytest.fixture
def own_cli(own_world, cache, place):
    """Root, with that engine."""
    universe, engine = own_world
    universe.forget()
    cli = Cli(universe, engine, place, cache)
    yield cli
    assert cli.left() == []


class TestAnEngine:
    def test_that_is_stopped_under_a_run(self, own_cli):
        with running(own_cli, TRYING) as process:
            own_cli.engine.stop()
            _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 125
        assert str(own_cli.engine.socket) in said
        assert "Traceback" not in said
        assert own_cli.run("--", "true").returncode == 125
        own_cli.engine.start()
        assert own_cli.run("--", "true").returncode == 0

    def test_that_is_killed_under_a_run(self, own_cli):
        """Who has run it ends what the engine has left running."""
        with running(own_cli, TRYING) as process:
            found = own_cli.engine.api.call("GET", f"/containers/{container_of(own_cli, process)}/json")
            first = os.pidfd_open(found["State"]["Pid"])
            own_cli.engine.kill()
            _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 125
        assert "Traceback" not in said
        assert has_ended(first, PATIENCE)
        os.close(first)
        own_cli.engine.start()
        assert own_cli.run("--", "true").returncode == 0

    def test_that_is_killed_together_with_a_run(self, own_cli):
        tried = own_cli.workdir / "tried"
        with running(own_cli, TRYING, "--allow-cidr", addresses.PUBLIC) as process:
            until(lambda: tried.exists() and " 200 " in tried.read_text())
            process.send_signal(signal.SIGSTOP)  # it is not to notice
            own_cli.engine.kill()
            process.kill()
            process.wait()
        tried.unlink()
        own_cli.universe.forget()
        until(lambda: tried.exists() and tried.read_text().count("tried") > 2)
        assert own_cli.universe.wire.contacts() == set()
        own_cli.engine.start()
        assert own_cli.run("--", "true").returncode == 0

    def test_that_is_stopped_under_a_server(self, own_cli, cache):
        engine = Engine("docker", own_cli.engine.socket)
        with ContainerBackend(engine, own_cli.workdir / "state", cache / "belljar/toolbox") as backend:
            backend.create("jar", WANTED).close()
            with started(backend, "jar", "sleep", "1000") as sleep:
                own_cli.engine.stop()
                with pytest.raises(LostError):
                    sleep.process.wait(PATIENCE)
            for ask in (backend.sandboxes, lambda: backend.destroy("jar"), lambda: backend.create("other", WANTED)):
                with pytest.raises(LostError):
                    ask()
            own_cli.engine.start()
            assert backend.sandboxes() == [SandboxStatus("jar", State.DEAD)]
            with pytest.raises(GoneError):
                backend.adopt("jar")
            backend.destroy("jar")
            assert backend.sandboxes() == []

    def test_with_rules_around_the_container_of_a_run_that_was_killed(self, own_cli):
        with running(own_cli, "echo ready; read line", "--isolation", "perimeter") as process:
            process.kill()
            process.wait()
        assert len(own_cli.universe.in_gateway(perimeter.installed)) == 1
        assert own_cli.run("--", "true").returncode == 0
        assert own_cli.universe.in_gateway(perimeter.installed) == []


def test_many_at_once_leave_nothing(docker_engine, backend, place):
    """They start, run and vanish in parallel."""
    descriptors, before = open_descriptors(), left_of(docker_engine)

    def live(name: str) -> str:
        doors = backend.create(name, WANTED)
        try:
            return run(backend, name, "sh", "-c", "cat /proc/net/route | wc -l; hostname").out
        finally:
            doors.close()
            backend.destroy(name)

    with ThreadPoolExecutor(MANY) as threads:
        said = list(threads.map(live, (f"jar-{number}" for number in range(MANY))))
    assert said == ["2\nbelljar\n"] * MANY
    assert backend.sandboxes() == []
    assert list((place / "sandboxes").iterdir()) + list((place / "doors").iterdir()) == []
    until(lambda: left_of(docker_engine) == before)
    assert open_descriptors() == descriptors


def open_descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def left_of(engine: Any) -> list[object]:
    """Return what an engine has: containers, networks, volumes, processes and mounts."""
    call = engine.api.call
    processes = [path for path in Path("/proc").glob("[0-9]*/cmdline") if engine.directory.name in text_of(path)]
    return [
        call("GET", "/containers/json?all=true"),
        sorted(network["Name"] for network in call("GET", "/networks")),
        call("GET", "/volumes")["Volumes"],
        len(processes),
        len(Path(f"/proc/{engine.pid}/mountinfo").read_text().splitlines()),
    ]


def text_of(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
