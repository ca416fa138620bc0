import shutil
import tempfile
from pathlib import Path

import pytest

from belljar.testing.memory import MemoryWorld
from tests.control.servers import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that the tests of a module share."""
    server = Server(tmp_path_factory.mktemp("server") / "state", MemoryWorld())
    yield server
    server.stop()


@pytest.fixture
def jar(server):
    """A sandbox of the shared server."""
    name = server.sandbox()
    yield name
    server.client.delete(server.path(name))


@pytest.fixture
def start(tmp_path):
    """Starts servers on one state directory and one world, one after the other."""
    world = MemoryWorld()
    started: list[Server] = []

    def start(**options):
        if started:
            started[-1].stop()
        started.append(Server(tmp_path / "state", world, **options))
        return started[-1]

    yield start
    if started:
        started[-1].stop()


@pytest.fixture
def machine(universe):
    """The real server in the universe."""
    from tests.control.machines import Machine  # noqa: PLC0415 - needs the universe

    directory = Path(tempfile.mkdtemp(prefix="belljar-serve-", dir="/var/tmp"))
    machine = Machine(universe, directory / "state")
    try:
        machine.start()
        yield machine
        machine.clean_up()
    finally:
        machine.kill()
    assert machine.leftovers() == []
    shutil.rmtree(directory)
