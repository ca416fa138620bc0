"""The beginning of a server's life: what an earlier one has left behind is adopted, finished or swept.

Whatever the backends have of this server's sandboxes is either in the database, and then it goes on as that says, or it
is nobody's, and ends. Until a sandbox is adopted nobody serves its doors, so it is closed. A backend that cannot be
asked (a container engine may be started later), or that lets us wait (an agent can have an engine do that), is no
reason not to serve the others: its sandboxes stay closed, and housekeeping asks again.

A sandbox whose row is stale (`belljar.control.stale`) has nothing to reach until somebody sets a policy: the one that
is written down had been replaced.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from belljar.backends.interface import GoneError, State
from belljar.errors import BelljarError
from belljar.gateway.attachment import Attachment
from belljar.runtime.context import Context, run_in_thread
from belljar.runtime.events import SandboxAdopted, SandboxDeleted
from belljar.runtime.lifecycle import Sandboxes
from belljar.runtime.sandbox import Sandbox, Status
from belljar.runtime.storage import StorageError

_LOG: Final = logging.getLogger(__name__)
_AT_ONCE: Final = 8
SECONDS_TO_ANSWER: Final = 3.0
"""What a backend lets us wait for any longer is gone on with, while the server serves."""

_STATUS: Final = {State.RUNNING: Status.RUNNING, State.PAUSED: Status.PAUSED}
_UNFINISHED: Final = (Status.CREATING, Status.DELETING)


class ServedPortError(BelljarError):
    """A sandbox may reach the port that the server is to listen on."""


async def adopt_all(context: Context, sandboxes: Sandboxes) -> set["asyncio.Task[None]"]:
    """Go on where an earlier life has stopped; return the tasks that a backend lets us wait for.

    Raises StorageError, ServedPortError.
    """
    known = [Sandbox.from_row(row) for row in await context.store.rows()]
    for sandbox in known:
        if sandbox.id in context.store.stale:
            _LOG.warning("%s may reach nothing: its latest policy could not be written down; set it again", sandbox.id)
            sandbox.network = sandbox.network.closed()
        _check_port(sandbox, context.control_port)
        context.sandboxes[sandbox.id] = sandbox
        if sandbox.backend not in context.backends:
            sandbox.status, sandbox.detail = Status.CLOSED, f"its backend, {sandbox.backend}, is not there"
    late = await asyncio.gather(
        *(
            _adopt_from(context, sandboxes, name, [sandbox for sandbox in known if sandbox.backend == name])
            for name in context.backends
        )
    )
    return set().union(*late)


async def _adopt_from(
    context: Context, sandboxes: Sandboxes, name: str, known: Sequence[Sandbox]
) -> set["asyncio.Task[None]"]:
    """Go on with the sandboxes of one backend; return the tasks that it lets us wait for."""
    try:
        async with asyncio.timeout(SECONDS_TO_ANSWER):
            states = {found.sandbox: found.state for found in await run_in_thread(context.backends[name].sandboxes)}
    except BelljarError as error:
        await _close_all(context, known, str(error))
        return set()
    except TimeoutError:
        await _close_all(context, known, f"{name} does not answer; it is asked again until it does")
        return set()
    turns = asyncio.Semaphore(_AT_ONCE)

    async def go_on(sandbox: Sandbox) -> None:
        async with sandbox.lock:
            async with turns:
                going = asyncio.create_task(_go_on(context, sandboxes, sandbox, states.get(sandbox.id, State.DEAD)))
                await asyncio.wait({going}, timeout=SECONDS_TO_ANSWER)
            await going

    sweeping = asyncio.create_task(_sweep_strangers(context, name, states))
    adopting = {asyncio.create_task(go_on(sandbox)): sandbox for sandbox in known}
    done, late = await asyncio.wait((sweeping, *adopting), timeout=SECONDS_TO_ANSWER)
    for task in done:
        task.result()
    await _close_all(
        context,
        [sandbox for task, sandbox in adopting.items() if task in late],
        f"{name} has not opened its doors yet; that goes on",
    )
    return late


async def adopt(context: Context, sandbox: Sandbox, state: State) -> None:
    """Serve the doors of a sandbox that lives; it stays closed if that does not work. Raises StorageError."""
    try:
        await _open_doors(context, sandbox, _STATUS[state])
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are served all the same
        why = str(error) if isinstance(error, BelljarError) else f"{type(error).__name__}: {error}"
        await _close_all(context, [sandbox], why)
        return
    context.events.tell(sandbox.id, SandboxAdopted())
    await context.store.save(sandbox.to_row())


async def _sweep_strangers(context: Context, name: str, states: Iterable[str]) -> None:
    for stranger in states:
        if stranger not in context.sandboxes:
            _LOG.warning("sweeping %s of the backend %s, which nobody knows", stranger, name)
            try:
                await run_in_thread(partial(context.backends[name].destroy, stranger))
            except BelljarError as error:
                _LOG.warning("%s is left over: %s", stranger, error)


async def _go_on(context: Context, sandboxes: Sandboxes, sandbox: Sandbox, state: State) -> None:
    if state is not State.DEAD and sandbox.status not in _UNFINISHED:
        await adopt(context, sandbox, state)
        return
    try:
        await sandboxes.destroy(sandbox)
    except StorageError:
        raise
    except BelljarError as error:
        _LOG.warning("%s cannot be swept yet: %s", sandbox.id, error)
        sandbox.status = Status.DELETING
    else:
        context.events.tell(sandbox.id, SandboxDeleted("sweep"))


async def _close_all(context: Context, sandboxes: Iterable[Sandbox], why: str) -> None:
    """Note which sandboxes nobody serves. What was half made or half deleted is deleted as soon as it can be."""
    for sandbox in sandboxes:
        if context.gateway.has(sandbox.id):
            continue
        is_unfinished = sandbox.status in _UNFINISHED
        closed = (Status.DELETING, None) if is_unfinished else (Status.CLOSED, why)
        if closed != (sandbox.status, sandbox.detail):
            _LOG.warning("%s stays closed: %s", sandbox.id, why)
            sandbox.status, sandbox.detail = closed
            await context.store.save(sandbox.to_row())


async def _open_doors(context: Context, sandbox: Sandbox, status: Status) -> None:
    attachment = await run_in_thread(lambda: context.backends[sandbox.backend].adopt(sandbox.id))
    try:
        async with sandbox.network_lock:
            await _serve(context, sandbox, attachment)
            sandbox.detail = None if sandbox.status is Status.CLOSED else sandbox.detail
            sandbox.status = status
    except BaseException:
        attachment.close()
        raise


async def _serve(context: Context, sandbox: Sandbox, attachment: Attachment) -> None:
    """Have a sandbox served with what it may reach by now: that may have changed, as long as nobody served it."""
    if sandbox.status is Status.DELETING:
        raise GoneError("it is being deleted")
    network = sandbox.network = sandbox.network.now()
    await run_in_thread(lambda: context.gateway.open(sandbox.id, network.resolved(), attachment, until=network.until))


def _check_port(sandbox: Sandbox, port: int | None) -> None:
    if port is None:
        return
    for ports in sandbox.network.base.host_ports:
        if ports.first <= port <= ports.last:
            raise ServedPortError(
                f"the sandbox {sandbox.id} may reach port {port} of this machine (host_ports), so this server cannot "
                "listen there; serve on another port"
            )
    for service in sandbox.network.base.services:
        if service.port_of_host == port:
            raise ServedPortError(
                f"the sandbox {sandbox.id} may reach port {port} of this machine (services.{service.name}), so this "
                "server cannot listen there; serve on another port"
            )
