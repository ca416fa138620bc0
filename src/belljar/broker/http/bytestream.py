"""Bytes in and out of a connection, of which no more than a little is ever held.

What arrives waits in a small buffer. While no task waits for it, nothing more is read, and the sender has to wait: the
transport's callbacks are not part of any sandbox's turns, so they must not come more often than the sandbox's task
takes what they bring (`belljar.broker.http.fairloop`). What is sent waits in the transport's buffer; when that is full,
`send` waits, and its caller reads nothing more from elsewhere meanwhile. A receiver that takes nothing at all for a
while is given up.
"""

import asyncio
import time
from contextlib import suppress
from typing import Final, cast

from belljar.broker.http.fairloop import current_owner, give_way
from belljar.turns import Owner

_MOST_HELD: Final = 64 << 10
_SECONDS_OF_ARRIVAL: Final = 15e-6
"""What the loop needs to notice that something has arrived, outside of any turn. Measured: 10 to 20 µs."""

_arriving: Final = bytearray(_MOST_HELD)
"""Where all streams of the loop receive: asyncio's other way allocates 256 KiB for each read, which takes longer than
the read itself.
"""


class StalledError(Exception):
    """The other side is gone, or takes nothing."""


class ByteStream(asyncio.BufferedProtocol):
    """One side of a connection."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self._awaited = True
        """Whether the task has taken all that has arrived before."""

        self._owner: Owner | None = None
        self._arrival_began = 0.0
        self.has_ended = False
        """Whether the other side says no more."""

        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_MOST_HELD)

    def get_buffer(self, _: int) -> bytearray:
        """Return where to receive."""
        self._arrival_began = time.perf_counter()
        return _arriving

    def buffer_updated(self, count: int) -> None:
        """Hold what arrives until it is asked for."""
        self._held += memoryview(_arriving)[:count]
        if self._owner is not None:
            self._owner.charge(_SECONDS_OF_ARRIVAL + time.perf_counter() - self._arrival_began)
        if not self._paused and (not self._awaited or len(self._held) >= _MOST_HELD):
            self._paused = True
            self.transport.pause_reading()
        self._awaited = False
        self._arrived.set()

    def eof_received(self) -> bool:
        """Note that the other side says no more. It may still listen."""
        self.has_ended = True
        self._arrived.set()
        return True

    def connection_lost(self, _: Exception | None) -> None:
        """Note that there is no other side any more."""
        self.has_ended = True
        self._arrived.set()
        self._writable.set()

    def pause_writing(self) -> None:
        """Have senders wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Have senders go on."""
        self._writable.set()

    @property
    def has_something(self) -> bool:
        """Whether `receive` would not wait."""
        return bool(self._held) or self.has_ended

    async def receive(self, seconds: float | None, limit: int = _MOST_HELD) -> bytes:
        """Return what has arrived, up to a limit; nothing at the end. Raises TimeoutError."""
        await give_way()
        self._owner = current_owner()
        if not self.has_something:
            async with asyncio.timeout(seconds):
                while not self.has_something:
                    self._arrived.clear()
                    await self._arrived.wait()
        data = bytes(self._held[:limit]) if len(self._held) > limit else bytes(self._held)
        del self._held[:limit]
        if not self._held and not self.has_ended:
            self._awaited = True
            if self._paused:
                self._paused = False
                self.transport.resume_reading()
        return data

    def drop(self) -> None:
        """Forget what has arrived, and take no more: there is no other side that it could be answered to."""
        self._held.clear()
        self.has_ended = True
        self._arrived.set()

    def put_back(self, data: bytes) -> None:
        """Hold what was received again, to be received next."""
        self._held[:0] = data

    async def send(self, data: bytes, seconds: float | None) -> None:
        """Send, and wait while too much is held; for as long as some of it is taken. Raises StalledError."""
        if self.transport.is_closing():
            raise StalledError
        self.transport.write(data)
        while not self._writable.is_set():
            held = self.transport.get_write_buffer_size()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._writable.wait()
            if not self._writable.is_set() and self.transport.get_write_buffer_size() >= held:
                self.transport.abort()
                raise StalledError
