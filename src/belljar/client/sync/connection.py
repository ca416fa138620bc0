# Generated from aio/connection.py by scripts/unasync.py: change that, and run this.
"""A connection to a server."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
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


class Connection:
    """Sends calls to one server."""

    def __init__(self, place: Place) -> None:
        with extra("client"):
            import httpx2  # noqa: PLC0415 - it takes 0.1 s, and most of Belljar never needs it

        self._place = place
        transport = httpx2.HTTPTransport(**transport_options(place))
        self._http = httpx2.Client(transport=transport, **client_options(place))

    def call(self, call: Call[T]) -> T:
        """Send a call, and return what is answered. Raises ClientError."""
        with translated(self._place):
            response = self._http.request(**request_options(call.request))
        return call.read(to_answer(response))

    @contextmanager
    def stream(self, request: Request) -> Iterator[Iterator[bytes]]:
        """Send a request, and give the bytes of its answer as they come. Raises ClientError."""
        with translated(self._place):
            response = self._http.send(self._http.build_request(**request_options(request)), stream=True)
        try:
            if not is_stream(response):
                with translated(self._place):
                    response.read()
                raise problem_of(response)
            with closing(self._chunks(response.iter_bytes())) as chunks:
                yield chunks
        finally:
            response.close()

    def _chunks(self, chunks: Iterator[bytes]) -> Generator[bytes, None]:
        with translated(self._place):
            yield from chunks

    @contextmanager
    def follow(self, following: Following) -> Iterator[Iterator[Event]]:
        """Give events as they happen, whatever becomes of the connection meanwhile. Raises ClientError."""
        with ExitStack() as current:
            chunks = current.enter_context(self.stream(following.request()))
            with closing(self._events(following, current, chunks)) as events:
                yield events

    def _events(self, following: Following, current: ExitStack, chunks: Iterator[bytes]) -> Generator[Event, None]:
        while True:
            with suppress(LostError):
                for chunk in chunks:
                    yield from following.feed(chunk)
                following.end()
            current.close()
            if following.is_over:
                return
            try:
                chunks = self._again(following, current)
            except NotFoundError:
                return  # deleted while nobody looked

    def _again(self, following: Following, current: ExitStack) -> Iterator[bytes]:
        import time  # noqa: PLC0415 - few connections break

        for pause in PAUSES:
            time.sleep(pause)
            with suppress(NoServerError, LostError):
                return current.enter_context(self.stream(following.request()))
        return current.enter_context(self.stream(following.request()))

    def close(self) -> None:
        """Hang up."""
        self._http.close()
