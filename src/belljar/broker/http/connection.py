"""A client's connection, and the task that serves it.

When the client is gone, the task is cancelled, wherever it is, and with it the request to the provider, which nobody
would read the answer of. The end of a client's bytes counts as its being gone once it has said all that it had to say,
as it does for other servers.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from belljar.broker.http.bytestream import ByteStream, StalledError


class ClientGoneError(Exception):
    """Nobody is there to be served any more."""


class Connection(ByteStream):
    """One connection, served by a task of its own."""

    def __init__(self, serve: Callable[["Connection"], Coroutine[Any, Any, None]], stalled_seconds: float) -> None:
        super().__init__()
        self._serve = serve
        self._stalled_seconds = stalled_seconds
        self._listens = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        super().connection_made(transport)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def eof_received(self) -> bool:
        """End with a client that has nothing more to say, and was only listening."""
        if self._listens:
            self._cancel()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """End with the client."""
        super().connection_lost(error)
        self._cancel()

    def listens(self, *, only: bool) -> None:
        """Say whether the client has said all of its request. Raises ClientGoneError if it has left after that."""
        self._listens = only
        if only and self.has_ended:
            raise ClientGoneError

    async def reply(self, data: bytes) -> None:
        """Send to the client. Raises ClientGoneError."""
        try:
            await self.send(data, self._stalled_seconds)
        except StalledError:
            raise ClientGoneError from None

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
