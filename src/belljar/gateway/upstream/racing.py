"""Several ways to one destination: each has a head start over the next, and the first that connects wins (RFC 8305)."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from belljar.gateway.io.loop import Loop, Task
from belljar.gateway.io.streams import Stream, connect
from belljar.names import Address

HEAD_START: Final = 0.25
"""Seconds before the next attempt is made beside one that has not answered."""

AT_ONCE: Final = 2
"""How many attempts are made beside each other; the oldest has to make room for the next."""

Attempt: TypeAlias = Callable[[], Coroutine[Any, Any, Stream]]


class HopelessError(OSError):
    """An attempt failed in a way that every other would, too."""


def connect_any(loop: Loop, addresses: Sequence[Address], port: int) -> Coroutine[Any, Any, Stream]:
    """Connect to whichever address answers first. Raises OSError."""
    if len(addresses) == 1:
        return connect(loop, addresses[0], port)
    return first_of(loop, [partial(connect, loop, address, port) for address in in_turn(addresses)])


async def first_of(loop: Loop, attempts: Sequence[Attempt]) -> Stream:
    """Return the connection that is made first. Raises OSError."""
    if len(attempts) == 1:
        return await attempts[0]()
    race = _Race(loop, attempts)
    try:
        return await race.winner()
    finally:
        race.abandon()


class _Race:
    """Connection attempts of which one is wanted."""

    def __init__(self, loop: Loop, attempts: Sequence[Attempt]) -> None:
        self._loop = loop
        self._waiting = list(reversed(attempts))
        self._running: list[Task] = []
        self._error: OSError = OSError("the name has no addresses")

    async def winner(self) -> Stream:
        while self._waiting or self._running:
            if self._waiting:
                if len(self._running) == AT_ONCE:
                    _give_up(self._running.pop(0))
                self._running.append(self._loop.spawn(self._waiting.pop()()))
            await self._news(HEAD_START if self._waiting else None)
            if (stream := self._collect()) is not None:
                return stream
        raise self._error

    async def _news(self, seconds: float | None) -> None:
        """Wait until an attempt has ended or the head start is over."""

        def arrange(wake: Callable[[], None]) -> Callable[[], None]:
            told = False

            def tell() -> None:
                nonlocal told
                if not told:
                    told = True
                    wake()

            for task in self._running:
                task.when_done(tell)
            timer = self._loop.call_later(seconds, tell) if seconds is not None else None

            def undo() -> None:
                nonlocal told
                told = True
                if timer is not None:
                    timer.cancel()

            return undo

        if not any(task.done for task in self._running):
            await self._loop.wait_for(arrange)

    def _collect(self) -> Stream | None:
        for task in [task for task in self._running if task.done]:
            if task.error is None:
                self._running.remove(task)
                return task.result  # type: ignore[no-any-return]
            self._running.remove(task)
            if not isinstance(task.error, OSError) or isinstance(task.error, HopelessError):
                raise task.error
            self._error = task.error
        return None

    def abandon(self) -> None:
        """End the attempts that have not won."""
        for task in self._running:
            _give_up(task)


def _give_up(task: Task) -> None:
    if task.done:
        _close_result(task)
    else:  # it may still win its own race in this turn of the loop
        task.when_done(partial(_close_result, task))
        task.cancel()


def _close_result(task: Task) -> None:
    if task.result is not None:
        task.result.close()


def in_turn(addresses: Sequence[Address]) -> list[Address]:
    """Order addresses for dialling: families in turn, IPv6 first."""
    six: list[Address] = [address for address in addresses if address.version == 6]
    four: list[Address] = [address for address in addresses if address.version == 4]
    ordered: list[Address] = []
    for index in range(max(len(six), len(four))):
        ordered += six[index : index + 1] + four[index : index + 1]
    return ordered
