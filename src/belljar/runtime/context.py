"""The parts that everything in the runtime works with."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TypeVar

from belljar.backends.interface import Backend, GoneError
from belljar.gateway.attachment import Gateways
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.runtime.events import SandboxDied
from belljar.runtime.problems import ProblemError
from belljar.runtime.sandbox import Sandbox, Status
from belljar.runtime.storage import EventSink, Store

T = TypeVar("T")


@dataclass(slots=True)
class Context:
    """Where sandboxes are made, served, written down and told of."""

    state: Path
    """The server's own directory: no sandbox ever sees it."""

    control_port: int | None
    """Where the server listens on this machine: no sandbox ever reaches it."""

    backends: Mapping[str, Backend]
    gateway: Gateways
    store: Store
    events: EventSink
    settings: Settings = DEFAULTS
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    """All that there are, the oldest first."""

    deadline_set: asyncio.Event = field(default_factory=asyncio.Event)
    """Tells who waits for the next deadline that there may be an earlier one."""

    _closing: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    """Sandboxes whose doors are being closed."""

    def find(self, sandbox: str) -> Sandbox:
        """Return a sandbox. Raises ProblemError."""
        found = self.sandboxes.get(sandbox)
        if found is None:
            raise ProblemError("sandbox_not_found", f'there is no sandbox "{sandbox}"; look at the list of them')
        return found

    def find_served(self, sandbox: str) -> Sandbox:
        """Return a sandbox whose doors are served. Raises ProblemError."""
        found = self.find(sandbox)
        if found.status is Status.DEAD:
            raise ProblemError("sandbox_gone", "all its processes have ended; delete it, and create another")
        if found.status not in (Status.RUNNING, Status.PAUSED):
            raise ProblemError(
                "sandbox_not_ready", f"the sandbox is {found.status} ({found.detail or 'wait for it'}); try again later"
            )
        return found

    def find_alive(self, sandbox: str) -> Sandbox:
        """Return a sandbox that lives, whether its doors are served or not. Raises ProblemError."""
        found = self.find(sandbox)
        return found if found.status is Status.CLOSED else self.find_served(sandbox)

    async def inside(self, sandbox: Sandbox, act: Callable[[Backend], T]) -> T:
        """Have the sandbox's backend do something inside, when it is its turn. Raises what `with_backend` raises."""
        async with sandbox.inside:
            return await self.with_backend(sandbox, act)

    async def with_backend(self, sandbox: Sandbox, act: Callable[[Backend], T]) -> T:
        """Have the sandbox's backend do something. Raises what it raises; one that has ended is noted as such."""
        try:
            return await run_in_thread(lambda: act(self.backends[sandbox.backend]))
        except GoneError:
            await self.note_death(sandbox)
            raise

    async def note_death(self, sandbox: Sandbox) -> None:
        """Note that all processes of a sandbox have ended. It is left without doors."""
        if sandbox.status not in (Status.RUNNING, Status.PAUSED, Status.CLOSED):
            return
        sandbox.status, sandbox.detail = Status.DEAD, "all its processes have ended"
        self.events.tell(sandbox.id, SandboxDied())
        await self.stop_serving(sandbox)
        await self.store.save(sandbox.to_row())

    async def stop_serving(self, sandbox: Sandbox) -> None:
        """Leave a sandbox without doors. Raises WorkerLostError when the gateway is being shut down.

        Several tasks may delete a sandbox: each waits until its last events are on record, whichever has come first.
        """
        closing = self._closing.get(sandbox.id)
        if closing is None:
            closing = self._closing[sandbox.id] = asyncio.create_task(
                run_in_thread(lambda: self.gateway.close(sandbox.id))
            )
            closing.add_done_callback(lambda _: self._closing.pop(sandbox.id))
        with suppress(KeyError):  # nobody serves it
            await asyncio.shield(closing)


async def run_in_thread(call: Callable[[], T]) -> T:
    """Call a function on a new thread, and return or raise what it does. It goes on if nobody waits any more.

    No call waits for a thread that another call has taken, nor does the end of the process wait for any of them: what a
    backend has not done by then, the next life finds written down.
    """
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(result)

    Thread(target=run, name="belljar-call", daemon=True).start()
    return await asyncio.wrap_future(done)
