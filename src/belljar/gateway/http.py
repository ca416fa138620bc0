"""HTTP in plain text, request by request.

Every request on a connection is decided by itself, so the gateway has to know where each ends. The bytes are passed on
as they are: `RequestHeadParser` has made sure that a head can be read in one way only, and h11 follows both streams to
find the ends of requests and responses. A request is looked at only when the response before it is complete, so a
denial can always be answered in its place.
"""

from collections.abc import Callable

import h11

from belljar.gateway.firstbytes import HttpClient
from belljar.gateway.loop import Loop
from belljar.gateway.relay import Relay
from belljar.wire.httpframing import NO_BODY
from belljar.wire.httphead import Http2Preface, RequestHead, RequestHeadParser
from belljar.wire.outcome import NEED_MORE, Refuse


class HttpRelay:
    """A connection on which requests follow each other."""

    def __init__(self, loop: Loop, relay: Relay, check: Callable[[RequestHead | Http2Preface | Refuse], None]) -> None:
        self._loop, self._relay, self._check = loop, relay, check
        self._unread = b""
        """What the client has sent of the request that is next."""
        self._passed = 0
        """How many of these bytes the server has already."""

    async def run(self, first: HttpClient, passed: int) -> None:
        """Serve requests until either side has had enough. Raises what `check` raises, and OSError."""
        self._unread, self._passed = first.received, passed
        while head := await self._next_head():
            self._check(head)
            if not isinstance(head, RequestHead):
                raise ConnectionResetError("what cannot be read cannot be passed on")
            response = await self._exchange(head)
            if response.their_state is h11.SWITCHED_PROTOCOL:
                await self._switch()
                return
            if not head.keep_alive or response.their_state is not h11.DONE:
                break
        self._relay.close()

    async def _next_head(self) -> RequestHead | Http2Preface | Refuse | None:
        """Read the next head, and leave its bytes unread; None at the end of the stream."""
        parser = RequestHeadParser()
        answer = parser.feed(self._unread) if self._unread else NEED_MORE
        while answer is NEED_MORE:
            data = await self._relay.client.read()
            if not data:
                return None
            self._unread += data
            answer = parser.feed(data)
        return answer

    async def _exchange(self, head: RequestHead) -> h11.Connection:
        """Pass on one request and its response; return what the response has led to."""
        if head.body == NO_BODY:
            await self._pass_request()
            return await self._pass_response(head)
        # A server may answer before it has read the whole body.
        answering = self._loop.spawn(self._pass_response(head))
        answering.when_done(lambda: self._relay.abort() if answering.error is not None else None)
        try:
            await self._pass_request()
            response: h11.Connection = await self._loop.join(answering)
        finally:
            answering.cancel()
        return response

    async def _pass_request(self) -> None:
        request = h11.Connection(h11.SERVER)
        data = self._unread
        while True:
            ended = _follow(request, data)
            own = len(data) - len(request.trailing_data[0]) if ended else len(data)
            await self._relay.upstream.write(data[self._passed : own])
            self._relay.up.bytes += own
            self._passed = 0
            if ended:
                self._unread = data[own:]
                return
            data = await self._relay.client.read()
            if not data:
                raise ConnectionResetError("the request breaks off")

    async def _pass_response(self, head: RequestHead) -> h11.Connection:
        response = h11.Connection(h11.CLIENT)
        # Just what the reading of a response depends on; how the request's own body ends does not.
        headers = [(b"host", b"-")]
        if head.upgrade is not None:
            headers += [(b"connection", b"upgrade"), (b"upgrade", head.upgrade)]
        response.send(h11.Request(method=head.method, target="/", headers=headers))
        response.send(h11.EndOfMessage())
        ended = False
        while not ended:
            data = await self._relay.upstream.read()
            ended = _follow(response, data)
            await self._relay.client.write(data)
            self._relay.down.bytes += len(data)
        return response

    async def _switch(self) -> None:
        """Leave the connection to a protocol that both sides have agreed on."""
        await self._relay.upstream.write(self._unread)
        self._relay.up.bytes += len(self._unread)
        self._relay.down.start()
        self._relay.up.start()


def _follow(stream: h11.Connection, data: bytes) -> bool:
    """Show a stream's next bytes to h11; tell whether the message has ended. Raises ConnectionResetError."""
    try:
        stream.receive_data(data)
        while True:
            event = stream.next_event()
            if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed) or event is h11.PAUSED:
                return True
            if event is h11.NEED_DATA:
                return False
    except h11.RemoteProtocolError as error:
        raise ConnectionResetError(f"not HTTP: {error}") from None
