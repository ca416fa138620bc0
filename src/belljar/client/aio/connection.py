"""A connection to a server."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import TypeVar

from belljar.client.asking import Call, Request
from belljar.client.errors import LostError, NoServerError, NotFoundError
from belljar.client.following import PAUSES, Following
from belljar.client.model import Event
from belljar.client.places import Place
from belljar.client.transport import (
    client_options,
    is_stream,
    problem_of,
    request_options,
    to_answer,
    translated,
    transport_options,
)
from belljar.errors import extra

T = TypeVar("T")


class AsyncConnection:
    """Sends calls to one server."""

    def __init__(self, place: Place) -> None:
        with extra("client"):
            import httpx2  # noqa: PLC0415 - it takes 0.1 s, and most of Belljar never needs it

        self._place = place
        transport = httpx2.AsyncHTTPTransport(**transport_options(place))
        self._http = httpx2.AsyncClient(transport=transport, **client_options(place))

    async def call(self, call: Call[T]) -> T:
        """Send a call, and return what is answered. Raises ClientError."""
        with translated(self._place):
            response = await self._http.request(**request_options(call.request))
        return call.read(to_answer(response))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send a request, and give the bytes of its answer as they come. Raises ClientError."""
        with translated(self._place):
            response = await self._http.send(self._http.build_request(**request_options(request)), stream=True)
        try:
            if not is_stream(response):
                with translated(self._place):
                    await response.aread()
                raise problem_of(response)
            async with aclosing(self._chunks(response.aiter_bytes())) as chunks:
                yield chunks
        finally:
            await response.aclose()

    async def _chunks(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        with translated(self._place):
            async for chunk in chunks:
                yield chunk

    @asynccontextmanager
    async def follow(self, following: Following) -> AsyncIterator[AsyncIterator[Event]]:
        """Give events as they happen, whatever becomes of the connection meanwhile. Raises ClientError."""
        async with AsyncExitStack() as current:
            chunks = await current.enter_async_context(self.stream(following.request()))
            async with aclosing(self._events(following, current, chunks)) as events:
                yield events

    async def _events(
        self, following: Following, current: AsyncExitStack, chunks: AsyncIterator[bytes]
    ) -> AsyncGenerator[Event, None]:
        while True:
            with suppress(LostError):
                async for chunk in chunks:
                    for event in following.feed(chunk):
                        yield event
                following.end()
            await current.aclose()
            if following.is_over:
                return
            try:
                chunks = await self._again(following, current)
            except NotFoundError:
                return  # deleted while nobody looked

    async def _again(self, following: Following, current: AsyncExitStack) -> AsyncIterator[bytes]:
        import asyncio  # noqa: PLC0415 - few connections break

        for pause in PAUSES:
            await asyncio.sleep(pause)
            with suppress(NoServerError, LostError):
                return await current.enter_async_context(self.stream(following.request()))
        return await current.enter_async_context(self.stream(following.request()))

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()
