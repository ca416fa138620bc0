"""A client's connection, and the task that serves it.

When the client is gone, the task is cancelled, wherever it is, and with it the request to the provider, whose answer
would have no reader; and what the client has sent is dropped. The end of a client's bytes counts as its being gone once
it has sent all of its request, as it does for other servers.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from belljar.broker.http.bytestream import ByteStream, StalledError
from belljar.broker.http.hangups import Hangups


class ClientGoneError(Exception):
    """Nobody is there to be served any more."""


class Connection(ByteStream):
    """One connection, served by a task of its own."""

    def __init__(
        self,
        serve: Callable[["Connection"], Coroutine[Any, Any, None]],
        stalled_seconds: float,
        hangups: Hangups | None = None,
    ) -> None:
        super().__init__()
        self._serve = serve
        self._stalled_seconds = stalled_seconds
        self._hangups = hangups
        self._descriptor = -1
        self._listens = self._has_left = False
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        super().connection_made(transport)
        if self._hangups is not None:
            self._descriptor = transport.get_extra_info("socket").fileno()
            self._hangups.watch(self._descriptor, self._hung_up)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def eof_received(self) -> bool:
        """End with a client that has nothing more to say, and was only listening."""
        if self._listens:
            self._cancel()
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """End with the client."""
        if self._hangups is not None:
            self._hangups.forget(self._descriptor)
        super().connection_lost(error)
        self._cancel()

    def listens(self, *, only: bool) -> None:
        """Set whether the client has sent all of its request. Raises ClientGoneError if it has left after that."""
        self._listens = only
        if only and (self.has_ended or self._has_left):
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
        except (ClientGoneError, TimeoutError, asyncio.CancelledError):
            # A cancelled task keeps its exception, whose traceback keeps this frame: a cycle of all that the connection
            # has held. The collector stops the loop for a quarter of a second if there are a thousand of them.
            pass
        finally:
            self._task = None
            self.transport.close()

    def _hung_up(self, can_be_answered: bool) -> None:  # noqa: FBT001 - the type of the callback
        self._has_left = True
        if not can_be_answered:
            self.drop()
            self.transport.abort()
            self._cancel()
        elif self._listens:
            self._cancel()

    def _cancel(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
