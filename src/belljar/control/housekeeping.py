"""What happens when its time has come: grants end, sandboxes are paused and deleted, dead ones are noticed.

Everything is tried again at the next round if it could not be done.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from belljar.backends.interface import State
from belljar.control.deadlines import since_boot
from belljar.control.networks import Networks
from belljar.control.plane import Plane
from belljar.control.sandbox import Sandbox, Status
from belljar.control.sandboxes import Sandboxes
from belljar.errors import BelljarError

_ROUND_SECONDS: Final = 1.0
"""The longest time between two rounds: a machine that was asleep has to be noticed."""

_LOOK_SECONDS: Final = 5.0
"""Between two looks at what the backends have."""

_SERVED: Final = (Status.RUNNING, Status.PAUSED)


class Housekeeping:
    """Goes its rounds until it is cancelled."""

    def __init__(self, plane: Plane, sandboxes: Sandboxes, networks: Networks) -> None:
        self._plane, self._sandboxes, self._networks = plane, sandboxes, networks
        self._next_look = time.monotonic() + _LOOK_SECONDS

    async def run(self) -> None:
        """Do what is due, for ever."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._plane.deadline_set.wait(), self._pause())
            self._plane.deadline_set.clear()
            await asyncio.gather(*map(self._see_to, list(self._plane.sandboxes.values())))
            if time.monotonic() >= self._next_look:
                self._next_look = time.monotonic() + _LOOK_SECONDS
                await self._look_for_the_dead()

    def _pause(self) -> float:
        """Return how long nothing is due."""
        now = since_boot()
        moments = [
            deadline.due
            for sandbox in self._plane.sandboxes.values()
            if sandbox.status in _SERVED
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
        elif sandbox.status in _SERVED:
            if any(grant.ends.is_over for grant in sandbox.network.grants):
                await _try(self._networks.end_grants(sandbox, lambda grant: grant.ends.is_over, "time"))
            if sandbox.status is Status.RUNNING and sandbox.expires is not None and sandbox.expires.is_over:
                await _try(self._sandboxes.pause(sandbox, "ttl"))

    async def _look_for_the_dead(self) -> None:
        for name, backend in self._plane.backends.items():
            try:
                found = {found.sandbox: found.state for found in await asyncio.to_thread(backend.sandboxes)}
            except BelljarError as error:
                logging.getLogger(__name__).warning("the backend %s cannot be asked: %s", name, error)
                continue
            for sandbox in list(self._plane.sandboxes.values()):
                is_dead = found.get(sandbox.id, State.DEAD) is State.DEAD
                if sandbox.backend == name and sandbox.status in _SERVED and is_dead and not sandbox.lock.locked():
                    async with sandbox.lock:
                        await _try(self._plane.note_death(sandbox))


async def _try(act: Awaitable[object]) -> None:
    try:
        await act
    except BelljarError as error:
        logging.getLogger(__name__).warning("to be tried again: %s", error)
