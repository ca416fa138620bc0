"""HTTP/1.1 with a client: one request after another, each with its answer. h11 reads and writes it.

What is read here is never sent on as it came: requests to a provider are written anew, so there is nothing to smuggle.

A body in one-byte chunks takes h11 thousands of events for what arrives at once. So each event may end the sandbox's
turn, and bytes are handed to h11 in small pieces, because a head is parsed in one step.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import h11

from belljar.broker.http.connection import ClientGoneError, Connection
from belljar.broker.http.fairloop import give_way
from belljar.broker.http.headers import Header, first
from belljar.broker.http.room import Kept
from belljar.broker.limits import BrokerLimits
from belljar.broker.refusals import RefusedRequest

_MAX_HEAD: Final = 16 << 10
_MAX_HEADERS: Final = 128
_HEAD_PIECE: Final = 4 << 10
"""Bytes that are parsed at once while a head is read: h11 parses one that is whole without regard to its size."""

_BODY_PIECE: Final = 64 << 10
_MAX_LEFT_OVER: Final = 1 << 20
"""Bytes of a request's body that are read after it was answered, so that the client gets to read the answer."""

_LEFT_OVER_TIMEOUT: Final = 2.0
"""Seconds, for all of it."""


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

    @property
    def length(self) -> int | None:
        """The length of the body, if the head says it."""
        length = first(self.headers, b"content-length")
        return int(length) if length is not None else None

    async def body(self) -> AsyncIterator[bytes]:
        """Return the body as it comes. Raises ClientGoneError, and RefusedRequest for what is no HTTP."""
        if self._machine.they_are_waiting_for_100_continue:
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        read = bytearray()
        while True:
            event = _parse(self._machine)
            if isinstance(event, h11.Data):
                read += event.data
            if len(read) >= _BODY_PIECE or (read and not isinstance(event, h11.Data)):
                yield bytes(read)  # small chunks together: each costs its reader more than its bytes
                read.clear()
            if event is None:
                await _receive(self._connection, self._machine, self._limits.idle_seconds)
            elif not isinstance(event, h11.Data):
                break
            await give_way()
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
        with suppress(TimeoutError, RefusedRequest, ClientGoneError):
            async with asyncio.timeout(_LEFT_OVER_TIMEOUT):
                left = _MAX_LEFT_OVER
                while machine.their_state is h11.SEND_BODY and left > 0:
                    if _parse(machine) is None:
                        left -= await _receive(self._connection, machine, None)
                    await give_way()
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
    while (event := _parse(machine)) is None:
        await _receive(connection, machine, limits.idle_seconds)
    if not isinstance(event, h11.Request):
        return None
    if len(event.headers) > _MAX_HEADERS:
        raise RefusedRequest(431, "http", f"a request has at most {_MAX_HEADERS} headers")
    exchange = Exchange(connection, machine, event, limits)
    names = [name for name, _ in event.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise RefusedRequest(400, "http", "a request has a Content-Length or a Transfer-Encoding, and not both")
    return exchange


def _parse(machine: h11.Connection) -> h11.Event | None:
    """Return the next event, or None if it takes more bytes. Raises RefusedRequest and ClientGoneError."""
    try:
        event = machine.next_event()
    except h11.RemoteProtocolError as error:
        if connection_has_ended(machine):
            raise ClientGoneError from None
        status = error.error_status_hint
        raise RefusedRequest(status if status in {414, 431, 501} else 400, "http", "this is no proper HTTP") from None
    if event is h11.NEED_DATA:
        return None
    if event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
        raise ClientGoneError
    return event  # type: ignore[return-value]


async def _receive(connection: Connection, machine: h11.Connection, seconds: float | None) -> int:
    """Wait for more bytes, and return how many there are. Raises TimeoutError."""
    is_head = machine.their_state is h11.IDLE
    data = await connection.receive(seconds, _HEAD_PIECE if is_head else _BODY_PIECE)
    machine.receive_data(data)
    return len(data)


def new_machine() -> h11.Connection:
    """Return what reads and writes the HTTP of a connection."""
    return h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)


def connection_has_ended(machine: h11.Connection) -> bool:
    """Tell whether the client had nothing more to say when its HTTP turned out to be none."""
    return bool(machine.trailing_data[1])


def _too_large(most: int) -> RefusedRequest:
    return RefusedRequest(413, "body", f"the request is larger than {most >> 20} MiB, which is all that is taken here")
