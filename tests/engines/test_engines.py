"""Each engine runs containers in a network of its own making, can be ended and started again, and leaves nothing."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from belljar.linux import programs
from tests import privileges
from tests.backends.containers.conftest import until
from tests.engines import BUSYBOX, Engine, busybox, make_image, start_docker, start_podman, start_rootless_podman
from tests.engines.api import PATIENCE

pytestmark = pytest.mark.long

STARTS = [start_docker, *([start_podman, start_rootless_podman] if privileges.EVERY_ENGINE else [])]
LASTING = ["sleep", "100000"]


@pytest.fixture(params=STARTS)
def own_engine(request):
    """An engine that a test may stop and kill."""
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    with request.param() as engine:
        make_image(engine, BUSYBOX, busybox())
        yield engine


def create(engine: Engine, *command: str, **host: object) -> str:
    wanted = {"Image": BUSYBOX, "Cmd": command, "Tty": True, "StopSignal": "KILL"}
    container = engine.api.call("POST", "/containers/create", {**wanted, "HostConfig": {"NetworkMode": "none", **host}})
    engine.api.call("POST", f"/containers/{container['Id']}/start")
    return str(container["Id"])


def state(engine: Engine, container: str) -> tuple[bool, int]:
    found = engine.api.call("GET", f"/containers/{container}/json")["State"]
    return found["Running"], found["Pid"]


def is_of(engine: Engine, pid: int) -> bool:
    """Tell whether a process is there that is in a container of the engine's."""
    try:
        return str(engine.directory) in Path(f"/proc/{pid}/mountinfo").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def what_is_left(engine: Engine) -> list[str]:
    name = engine.directory.name
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if name in line]
    processes = [path for path in Path("/proc").glob("[0-9]*/cmdline") if name in _text(path)]
    groups = [directory for directory, names, _ in os.walk("/sys/fs/cgroup") if name in names]
    return [*mounts, *map(str, processes), *groups]


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class TestContainers:
    def test_have_no_network_and_no_rights(self, engine):
        container = create(engine, "sh", "-c", "ls /sys/class/net; grep CapBnd /proc/self/status", CapDrop=["ALL"])
        assert engine.api.call("POST", f"/containers/{container}/wait")["StatusCode"] == 0
        said = engine.api.send("GET", f"/containers/{container}/logs?stdout=1").decode()
        assert said.split() == ["lo", "CapBnd:", "0" * 16]
        engine.api.call("DELETE", f"/containers/{container}")

    def test_are_processes_of_the_machine(self, engine):
        container = create(engine, *LASTING)
        _, pid = state(engine, container)
        until(lambda: _text(Path(f"/proc/{pid}/cmdline")).split("\0")[:2] == LASTING)
        engine.api.call("DELETE", f"/containers/{container}?force=true")

    def test_can_be_paused(self, engine):
        container = create(engine, *LASTING)
        engine.api.call("POST", f"/containers/{container}/pause")
        assert engine.api.call("GET", f"/containers/{container}/json")["State"]["Status"] == "paused"
        engine.api.call("POST", f"/containers/{container}/unpause")
        engine.api.call("DELETE", f"/containers/{container}?force=true")


class TestEngines:
    def test_have_no_way_out(self, engine):
        devices = Path(f"/proc/{engine.pid}/net/dev").read_text().splitlines()[2:]
        assert {line.split(":")[0].strip() for line in devices} <= {"lo", "docker0"}

    def test_live_where_they_are_told_to(self, namespace):
        if reason := privileges.missing_for_engines():
            pytest.skip(reason)
        with start_docker(namespace):
            assert "docker0" in namespace.run(lambda: programs.run("ip", "link"))

    def test_are_used_by_somebody_without_rights(self, engine):
        client = (
            "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "print(os.geteuid(), os.getcwd(), [x for x in open('/proc/self/status') if x.startswith('CapEff')])"
        )
        done = engine.run_as_user(sys.executable, "-c", client, str(engine.socket), workdir=engine.home)
        assert done.returncode == 0, done.stderr
        user, directory, rights = done.stdout.split(maxsplit=2)
        assert directory == str(engine.home)
        if engine.kind == "docker" or engine.rootless:
            assert user != "0"
            assert "0" * 16 in rights

    def test_can_be_killed_and_started_again(self, own_engine):
        container = create(own_engine, *LASTING)
        _, pid = state(own_engine, container)
        own_engine.kill()
        with pytest.raises(ConnectionRefusedError):
            own_engine.api.call("GET", "/info")
        assert is_of(own_engine, pid)
        own_engine.start()
        # Docker ends what ran while it was away, unless it is told otherwise; Podman was never needed.
        assert state(own_engine, container)[0] == is_of(own_engine, pid) == (own_engine.kind == "podman")

    def test_can_be_stopped_and_leave_nothing(self, own_engine):
        container = create(own_engine, *LASTING)
        own_engine.restart()
        engine_is_needed = own_engine.kind == "docker"
        assert state(own_engine, container)[0] != engine_is_needed
        if engine_is_needed:
            own_engine.api.call("POST", f"/containers/{container}/start")
        _, pid = state(own_engine, container)
        assert is_of(own_engine, pid)
        own_engine.close()
        assert not is_of(own_engine, pid)
        assert not own_engine.directory.exists()
        assert what_is_left(own_engine) == []


def test_an_engine_ends_with_the_tests_that_use_it():
    if reason := privileges.missing_for_engines():
        pytest.skip(reason)
    code = (
        "from tests.engines import start_podman; engine = start_podman();"
        "print(engine._keeper.pid, engine.directory, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tests:
        assert tests.stdout is not None
        keeper, directory = tests.stdout.readline().decode().split()
        descriptor = os.pidfd_open(int(keeper))
        tests.send_signal(signal.SIGKILL)
    assert select.select([descriptor], [], [], PATIENCE)[0]
    os.close(descriptor)
    assert not Path(directory).exists()
