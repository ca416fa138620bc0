"""Bytes in and out of a connection, of which no more than a little is ever held.

What arrives waits in a small buffer; when that is full, nothing more is read, and the sender has to wait. What is sent
waits in the transport's; when that is full, `send` waits, and whoever calls it reads nothing more from elsewhere
meanwhile. Who takes nothing at all for a while is given up.
"""

import asyncio
from contextlib import suppress
from typing import Final, cast

_MOST_HELD: Final = 64 << 10


class StalledError(Exception):
    """The other side is gone, or takes nothing."""


class ByteStream(asyncio.Protocol):
    """One side of a connection."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._paused = False
        self.has_ended = False
        """Whether the other side says no more."""

        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_MOST_HELD)

    def data_received(self, data: bytes) -> None:
        """Hold what arrives until it is asked for."""
        self._held += data
        if len(self._held) >= _MOST_HELD and not self._paused:
            self._paused = True
            self.transport.pause_reading()
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

    async def receive(self, seconds: float | None) -> bytes:
        """Return what has arrived; nothing at the end. Raises TimeoutError."""
        if not self.has_something:
            async with asyncio.timeout(seconds):
                while not self.has_something:
                    self._arrived.clear()
                    await self._arrived.wait()
        data = bytes(self._held)
        self._held.clear()
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return data

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
