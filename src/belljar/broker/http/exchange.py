"""HTTP/1.1 with a client: one request after another, each with its answer. h11 reads and writes it.

What is read here is never sent on as it came: requests to a provider are written anew, so there is nothing to smuggle.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import h11

from belljar.broker.http.connection import ClientGoneError, Connection
from belljar.broker.http.headers import Header, first
from belljar.broker.http.room import Kept
from belljar.broker.limits import BrokerLimits
from belljar.broker.refusals import RefusedRequest

_MOST_HEAD: Final = 64 << 10
_MOST_LEFT_OVER: Final = 1 << 20
"""Bytes of a request's body that are read after it was answered, so that the client gets to read the answer."""

_SECONDS_FOR_LEFT_OVER: Final = 2.0


class Exchange:
    """A request, and the means to answer it."""

    def __init__(
        self, connection: Connection, machine: h11.Connection, request: h11.Request, limits: BrokerLimits
    ) -> None:
        self._connection, self._machine, self._limits = connection, machine, limits
        self.method = request.method.decode()
        self.target = request.target.decode()
        self.headers: list[Header] = list(request.headers)
        self.has_answered = False

    @property
    def has_body(self) -> bool:
        """Whether a body comes with the request."""
        length = first(self.headers, b"content-length")
        return first(self.headers, b"transfer-encoding") is not None or (length is not None and int(length) > 0)

    async def body(self) -> AsyncIterator[bytes]:
        """Return the body as it comes. Raises ClientGoneError, and RefusedRequest for what is no HTTP."""
        if self._machine.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            event = await next_event(self._connection, self._machine, self._limits.idle_seconds)
            if not isinstance(event, h11.Data):
                break
            yield bytes(event.data)
        self.has_said_all()

    def has_said_all(self) -> None:
        """Note that there is no body to come. Raises ClientGoneError if nobody is left to be answered."""
        self._connection.listens(only=True)

    async def whole_body(self, kept: Kept) -> None:
        """Have all of the body kept. Raises RefusedRequest if it is too much."""
        most = self._limits.body
        if int(first(self.headers, b"content-length") or 0) > most:
            raise _too_large(most)
        async for part in self.body():
            kept.add(part)
            if len(kept) > most:
                raise _too_large(most)

    async def answer(self, status: int, headers: list[Header] | list[tuple[str, str]], reason: bytes = b"") -> None:
        """Send the head of the answer."""
        self.has_answered = True
        await self._send(h11.Response(status_code=status, headers=headers, reason=reason))

    async def send(self, data: bytes) -> None:
        """Send more of the answer's body, at once."""
        await self._send(h11.Data(data=data))

    async def finish(self) -> None:
        """End the answer."""
        await self._send(h11.EndOfMessage())

    async def switch(self, headers: list[Header]) -> tuple[Connection, bytes]:
        """Agree to another protocol; return the connection, and what the client has sent of it already."""
        self.has_answered = True
        await self._send(h11.InformationalResponse(status_code=101, headers=headers, reason=b"Switching Protocols"))
        self._connection.listens(only=False)
        return self._connection, bytes(self._machine.trailing_data[0])

    def abort(self) -> None:
        """Break off, so that the client sees that the answer is not whole."""
        self._connection.transport.abort()

    async def clean_up(self) -> bool:
        """Read what is left of the request; tell whether another one may follow."""
        machine = self._machine
        left = _MOST_LEFT_OVER
        with suppress(TimeoutError, RefusedRequest, ClientGoneError):
            while machine.their_state is h11.SEND_BODY and left > 0:
                event = await next_event(self._connection, machine, _SECONDS_FOR_LEFT_OVER)
                left -= len(event.data) if isinstance(event, h11.Data) else 0
        self._connection.listens(only=False)
        if machine.our_state is not h11.DONE or machine.their_state is not h11.DONE:
            return False
        machine.start_next_cycle()
        return True

    async def _send(self, event: h11.Event) -> None:
        try:
            data = self._machine.send(event)
        except h11.LocalProtocolError:  # the provider's answer cannot be told in HTTP: it is longer than it says
            self.abort()
            raise ClientGoneError from None
        if data:
            await self._connection.reply(data)


async def next_request(connection: Connection, machine: h11.Connection, limits: BrokerLimits) -> Exchange | None:
    """Wait for a request; None at the end. Raises RefusedRequest, ClientGoneError and TimeoutError."""
    event = await next_event(connection, machine, limits.idle_seconds)
    if not isinstance(event, h11.Request):
        return None
    exchange = Exchange(connection, machine, event, limits)
    names = [name for name, _ in event.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise RefusedRequest(400, "http", "a request has a Content-Length or a Transfer-Encoding, and not both")
    return exchange


async def next_event(connection: Connection, machine: h11.Connection, seconds: float) -> h11.Event:
    """Wait for what comes next. Raises RefusedRequest for what is no HTTP, ClientGoneError and TimeoutError."""
    while True:
        try:
            event = machine.next_event()
        except h11.RemoteProtocolError as error:
            if not connection_has_ended(machine):
                status = error.error_status_hint
                raise RefusedRequest(
                    status if status in {414, 431, 501} else 400, "http", "this is no proper HTTP"
                ) from None
            raise ClientGoneError from None
        if event is h11.NEED_DATA:
            machine.receive_data(await connection.receive(seconds))
        elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            raise ClientGoneError
        else:
            return event  # type: ignore[return-value]


def new_machine() -> h11.Connection:
    """Return what reads and writes the HTTP of a connection."""
    return h11.Connection(h11.SERVER, max_incomplete_event_size=_MOST_HEAD)


def connection_has_ended(machine: h11.Connection) -> bool:
    """Tell whether the client had nothing more to say when its HTTP turned out to be none."""
    return bool(machine.trailing_data[1])


def _too_large(most: int) -> RefusedRequest:
    return RefusedRequest(413, "body", f"the request is larger than {most >> 20} MiB, which is all that is taken here")
