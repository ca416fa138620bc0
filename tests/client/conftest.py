import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from belljar import AsyncClient, Client
from tests.control.conftest import server, start  # noqa: F401 - fixtures
from tests.layers import cover, make_layer

_TRUSTING = f'{cover("/etc/ssl/certs", "$0")}exec "$@"'


@pytest.fixture
def client(server):  # noqa: F811
    """A client of a server over the in-memory backend, on its unix socket."""
    with Client(server.state) as client:
        yield client


@pytest.fixture
def jar(client):
    """A sandbox of that server."""
    with client.claim(backend="memory") as sandbox:
        yield sandbox


@pytest.fixture
def with_async(server):  # noqa: F811
    """Runs something with a client for asyncio, which comes over TCP."""

    def run(act):
        async def acting() -> None:
            async with AsyncClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
                await act(client)

        asyncio.run(acting())

    return run


@pytest.fixture(scope="module")
def machine(whole_universe):
    """The real server in the universe. Programs in its sandboxes trust the universe's certificates."""
    from tests.control.machines import Machine  # noqa: PLC0415 - needs the universe

    directory = Path(tempfile.mkdtemp(prefix="belljar-client-", dir="/var/tmp"))
    machine = Machine(whole_universe, directory / "state")
    trusted = make_layer(directory / "trusted", {"ca-certificates.crt": whole_universe.certificates.path.read_text()})
    machine.through = ("unshare", "--mount", "sh", "-euc", _TRUSTING, str(trusted))
    try:
        machine.start()
        yield machine
        machine.clean_up()
    finally:
        machine.kill()
    shutil.rmtree(directory)
