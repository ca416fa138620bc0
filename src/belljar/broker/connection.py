"""A client's connection: bytes in and out, of which no more than a little is ever held.

Theory of operation
-------------------
What arrives waits in a small buffer; when that is full, nothing more is read, and the sender has to wait. What is sent
waits in the transport's; when that is full, `send` waits, and whoever calls it reads nothing more from the provider
meanwhile. A client that takes nothing at all for a while is dropped.

One task serves a connection. When the client is gone, the task is cancelled, wherever it is, and with it the request to
the provider, which nobody would read the answer of. The end of a client's bytes counts as its being gone once it has
said all that it had to say, as it does for other servers.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, cast

_MOST_HELD: Final = 64 << 10


class ClientGoneError(Exception):
    """Nobody is there to be served any more."""


class Connection(asyncio.Protocol):
    """One connection, served by a task of its own."""

    def __init__(self, serve: Callable[["Connection"], Coroutine[Any, Any, None]], stalled_seconds: float) -> None:
        self._serve = serve
        self._stalled_seconds = stalled_seconds
        self._held = bytearray()
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended = self._listens = False
        self._task: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=_MOST_HELD)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def data_received(self, data: bytes) -> None:
        """Hold what arrives until it is asked for."""
        self._held += data
        if len(self._held) >= _MOST_HELD:
            self.transport.pause_reading()
        self._arrived.set()

    def eof_received(self) -> bool:
        """Note that the client says no more."""
        self._ended = True
        self._arrived.set()
        if self._listens:
            self._cancel()
        return True

    def connection_lost(self, _: Exception | None) -> None:
        """End with the client."""
        self._ended = True
        self._arrived.set()
        self._writable.set()
        self._cancel()

    def pause_writing(self) -> None:
        """Have senders wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Have senders go on."""
        self._writable.set()

    def listens(self, *, only: bool) -> None:
        """Say whether the client has said all of its request, and does nothing but listen."""
        self._listens = only
        if only and self._ended:
            raise ClientGoneError

    async def receive(self, seconds: float) -> bytes:
        """Return what has arrived; nothing at the end. Raises TimeoutError."""
        while not self._held and not self._ended:
            self._arrived.clear()
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        data = bytes(self._held)
        self._held.clear()
        if not self.transport.is_closing():
            self.transport.resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        """Send, and wait while too much is held. Raises ClientGoneError."""
        if self.transport.is_closing():
            raise ClientGoneError
        self.transport.write(data)
        while not self._writable.is_set():
            held = self.transport.get_write_buffer_size()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._stalled_seconds):
                    await self._writable.wait()
            if not self._writable.is_set() and self.transport.get_write_buffer_size() >= held:
                self.transport.abort()
                raise ClientGoneError

    def abort(self) -> None:
        """End at once, so that the client sees that something is missing."""
        self.transport.abort()

    async def _run(self) -> None:
        try:
            await self._serve(self)
        except (ClientGoneError, TimeoutError):
            pass
        finally:
            self.transport.close()

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
