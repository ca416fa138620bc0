"""What happens when its time has come: grants end, sandboxes are paused and deleted, dead ones are noticed.

Everything is tried again at the next round if it could not be done. A backend may let one sandbox wait for long (a
container engine can be stopped, or hang); the others do not wait with it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from typing import Final

from belljar.backends.interface import Backend, State
from belljar.errors import BelljarError
from belljar.runtime.adoption import SECONDS_TO_ANSWER, adopt
from belljar.runtime.context import Context, run_in_thread
from belljar.runtime.deadlines import since_boot
from belljar.runtime.lifecycle import Sandboxes
from belljar.runtime.policies import Networks
from belljar.runtime.sandbox import Sandbox, Status

_ROUND_SECONDS: Final = 1.0
"""The longest time between two rounds: a machine that was asleep has to be noticed."""

_LOOK_SECONDS: Final = 5.0
"""Between two looks at what the backends have."""

_ALIVE: Final = (Status.RUNNING, Status.PAUSED, Status.CLOSED)
_LOG: Final = logging.getLogger(__name__)


class Housekeeping:
    """Goes its rounds until it is cancelled."""

    def __init__(self, context: Context, sandboxes: Sandboxes, networks: Networks) -> None:
        self._context, self._sandboxes, self._networks = context, sandboxes, networks
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._complaints: dict[str, str] = {}
        """Why each backend could not be asked the last time."""

    async def run(self, late: Iterable["asyncio.Task[None]"]) -> None:
        """Do what is due, for ever. Some of it was begun before."""
        async with asyncio.TaskGroup() as tasks:
            for task in late:
                tasks.create_task(_try(task))
            for name, backend in self._context.backends.items():
                tasks.create_task(self._look_for_ever(name, backend, tasks))
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._context.deadline_set.wait(), self._pause())
                self._context.deadline_set.clear()
                await self._go_round(tasks)

    async def _go_round(self, tasks: asyncio.TaskGroup) -> None:
        for name, sandbox in self._context.sandboxes.items():
            if name not in self._at_work:
                self._at_work[name] = tasks.create_task(self._see_to(sandbox))
        if self._at_work:
            await asyncio.wait(self._at_work.values(), timeout=_ROUND_SECONDS)
        self._at_work = {name: task for name, task in self._at_work.items() if not task.done()}

    def _pause(self) -> float:
        """Return how long nothing is due."""
        now = since_boot()
        moments = [
            deadline.due
            for sandbox in self._context.sandboxes.values()
            if sandbox.status in _ALIVE
            for deadline in (sandbox.expires, sandbox.hard_expires, *(grant.ends for grant in sandbox.network.grants))
            if deadline is not None
        ]
        return min(max(min(moments, default=now + _ROUND_SECONDS) - now, 0.01), _ROUND_SECONDS)

    async def _see_to(self, sandbox: Sandbox) -> None:
        """Do what is due for one sandbox."""
        if sandbox.status is Status.DELETING and not sandbox.lock.locked():
            await _try(self._sandboxes.delete(sandbox, "request"))
        elif (
            sandbox.hard_expires is not None and sandbox.hard_expires.is_over and sandbox.status is not Status.CREATING
        ):
            await _try(self._sandboxes.delete(sandbox, "hard_ttl"))
        elif sandbox.status in _ALIVE:
            if sandbox.id in self._context.store.stale:
                await _try(self._networks.write_down(sandbox))
            if any(grant.ends.is_over for grant in sandbox.network.grants):
                await _try(self._networks.end_grants(sandbox, lambda grant: grant.ends.is_over, "time"))
            if sandbox.status is not Status.PAUSED and sandbox.expires is not None and sandbox.expires.is_over:
                await _try(self._sandboxes.expire(sandbox))

    async def _look_for_ever(self, name: str, backend: Backend, tasks: asyncio.TaskGroup) -> None:
        """See again and again what has become of the sandboxes of one backend."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            # Before it is asked: one that is made meanwhile is not in the answer, and not dead either.
            expected = [
                sandbox
                for sandbox in self._context.sandboxes.values()
                if sandbox.backend == name and sandbox.status in _ALIVE
            ]
            if expected and (found := await self._ask(name, backend)) is not None:
                for sandbox in expected:
                    comparing = tasks.create_task(self._compare(sandbox, found.get(sandbox.id, State.DEAD)))
                    await asyncio.wait({comparing}, timeout=SECONDS_TO_ANSWER)  # the others do not wait any longer

    async def _ask(self, name: str, backend: Backend) -> dict[str, State] | None:
        try:
            found = {found.sandbox: found.state for found in await run_in_thread(backend.sandboxes)}
        except BelljarError as error:
            if self._complaints.get(name) != str(error):
                _LOG.warning("the backend %s cannot be asked: %s", name, error)
            self._complaints[name] = str(error)
            return None
        self._complaints.pop(name, None)
        return found

    async def _compare(self, sandbox: Sandbox, state: State) -> None:
        """Note that a sandbox has died; adopt one whose backend could not be asked before, and can be now."""
        if sandbox.lock.locked():
            return
        async with sandbox.lock:
            if state is State.DEAD:
                await _try(self._context.note_death(sandbox))
            elif sandbox.status is Status.CLOSED:
                await _try(adopt(self._context, sandbox, state))


async def _try(act: Awaitable[object]) -> None:
    try:
        await act
    except BelljarError as error:
        _LOG.warning("to be tried again: %s", error)
