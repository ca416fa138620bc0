"""Whose turn it is to do what takes long. A sandbox has one place in the queue, however much it asks for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """One at a time; who wants many turns waits for others between them."""

    def __init__(self) -> None:
        self._in_all = asyncio.Lock()
        self._of_each = WeakValueDictionary[str, asyncio.Lock]()

    @asynccontextmanager
    async def take(self, sandbox: str) -> AsyncIterator[None]:
        """Wait for a turn, and have it for as long as the context lasts."""
        own = self._of_each.setdefault(sandbox, asyncio.Lock())
        async with own, self._in_all:
            yield
