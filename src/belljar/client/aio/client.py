"""The client."""

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import AbstractAsyncContextManager
from os import PathLike
from typing import Any, Self, Unpack

from belljar.client import calls
from belljar.client.aio.connection import AsyncConnection
from belljar.client.aio.sandbox import AsyncSandbox
from belljar.client.following import Following
from belljar.client.model import Event
from belljar.client.options import ClaimOptions
from belljar.client.places import find_server


class AsyncClient:
    """Sandboxes of one server: a URL, or the state directory of one that runs on this machine.

    By default it is what BELLJAR_SERVER names, or else this user's own. A URL needs a token, which can be in
    BELLJAR_TOKEN. Every method raises ClientError. One for asyncio belongs to its event loop; threads can share others.
    """

    def __init__(self, server: str | PathLike[str] | None = None, *, token: str | None = None) -> None:
        self._connection = AsyncConnection(find_server(server, token))

    # with asyncio:
    def claim(self, **options: Unpack[ClaimOptions]) -> "Claim":
        """Make a sandbox, which is sealed and ready: `await` it, or use it with `async with`, which deletes it."""
        return Claim(self._connection, options)

    # without:
    # def claim(self, **options: Unpack[ClaimOptions]) -> Sandbox:
    #     """Make a sandbox, which is sealed and ready. As a context manager, it is deleted at the end."""
    #     return Sandbox(self._connection, self._connection.call(calls.claim(options)))
    # end

    async def sandbox(self, name: str) -> AsyncSandbox:
        """Return a sandbox that is there already."""
        return AsyncSandbox(self._connection, await self._connection.call(calls.get(name)))

    async def sandboxes(
        self, *, status: str | None = None, labels: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncSandbox]:
        """Yield the sandboxes that there are, the oldest first."""
        cursor = None
        while True:
            states, cursor = await self._connection.call(calls.page(status, labels or {}, cursor))
            for state in states:
                yield AsyncSandbox(self._connection, state)
            if cursor is None:
                return

    def events(
        self, *, after: int | None = None, follow: bool = True
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Follow what happens in all sandboxes: after an event, or from now on. See `Sandbox.events`."""
        return self._connection.follow(Following(None, after, follow=follow))

    async def close(self) -> None:
        """Hang up. Sandboxes live on."""
        await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


# with asyncio:
class Claim:
    """A sandbox that is yet to be made."""

    def __init__(self, connection: AsyncConnection, options: ClaimOptions) -> None:
        self._connection, self._options = connection, options
        self._made: AsyncSandbox | None = None

    def __await__(self) -> Generator[Any, None, AsyncSandbox]:
        """Make it."""
        return self._make().__await__()

    async def __aenter__(self) -> AsyncSandbox:
        self._made = await self._make()
        return self._made

    async def __aexit__(self, *_: object) -> None:
        if self._made is not None:
            await self._made.__aexit__()

    async def _make(self) -> AsyncSandbox:
        return AsyncSandbox(self._connection, await self._connection.call(calls.claim(self._options)))


# end
