"""The beginning of a server's life: what an earlier one has left behind is adopted, finished or swept.

Whatever the backends have of this server's sandboxes is either in the database, and then it goes on as that says, or it
is nobody's, and ends. Until a sandbox is adopted nobody serves its doors, so it is closed.
"""

import asyncio
import logging
from typing import Final

from belljar.backends.interface import State
from belljar.control.happenings import SandboxAdopted, SandboxDeleted
from belljar.control.network import Network
from belljar.control.plane import Plane
from belljar.control.sandbox import Sandbox, Status
from belljar.control.sandboxes import Sandboxes
from belljar.errors import BelljarError

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 8
_STATUS: Final = {State.RUNNING: Status.RUNNING, State.PAUSED: Status.PAUSED}


class ServedPortError(BelljarError):
    """A sandbox may reach the port that the server is to listen on."""


async def adopt_all(plane: Plane, sandboxes: Sandboxes) -> None:
    """Go on where an earlier life has stopped. Raises StorageError, ServedPortError, and what backends raise."""
    known = [Sandbox.from_row(row) for row in await plane.store.rows()]
    for sandbox in known:
        _check_port(sandbox, plane.control_port)
        plane.sandboxes[sandbox.id] = sandbox
    states: dict[str, State] = {}
    for name, backend in plane.backends.items():
        for found in await asyncio.to_thread(backend.sandboxes):
            states[found.sandbox] = found.state
            if found.sandbox not in plane.sandboxes:
                _LOG.warning("sweeping %s of the backend %s, which nobody knows", found.sandbox, name)
                await asyncio.to_thread(backend.destroy, found.sandbox)
    turns = asyncio.Semaphore(_AT_ONCE)

    async def adopt(sandbox: Sandbox) -> None:
        async with turns:
            await _adopt(plane, sandboxes, sandbox, states.get(sandbox.id, State.DEAD))

    await asyncio.gather(*map(adopt, known))


async def _adopt(plane: Plane, sandboxes: Sandboxes, sandbox: Sandbox, state: State) -> None:
    if sandbox.backend not in plane.backends:
        sandbox.status, sandbox.detail = Status.CLOSED, f"its backend, {sandbox.backend}, is not there"
        return
    if state is State.DEAD or sandbox.status in (Status.CREATING, Status.DELETING):
        await sandboxes.destroy(sandbox)
        plane.hub.tell(sandbox.id, SandboxDeleted("sweep"))
        return
    try:
        await _open_doors(plane, sandbox)
    except BelljarError as error:
        _LOG.warning("%s stays closed: %s", sandbox.id, error)
        sandbox.status, sandbox.detail = Status.CLOSED, str(error)
    else:
        sandbox.status = _STATUS[state]
        plane.hub.tell(sandbox.id, SandboxAdopted())
    await plane.store.save(sandbox.to_row())


async def _open_doors(plane: Plane, sandbox: Sandbox) -> None:
    compiled = await asyncio.to_thread(Network.compiled, sandbox.network)
    listeners = await asyncio.to_thread(plane.backends[sandbox.backend].adopt, sandbox.id, udp=True)
    try:
        await asyncio.to_thread(plane.workers.open, sandbox.id, compiled, listeners)
    except BaseException:
        listeners.close()
        raise


def _check_port(sandbox: Sandbox, port: int | None) -> None:
    if port is None:
        return
    for ports in sandbox.network.base.policy.host_ports:
        if ports.first <= port <= ports.last:
            raise ServedPortError(
                f"the sandbox {sandbox.id} may reach port {port} of this machine (host_ports), so this server cannot "
                "listen there; serve on another port"
            )
