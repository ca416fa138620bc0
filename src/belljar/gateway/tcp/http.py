"""HTTP in plain text, request by request.

Theory of operation
-------------------
Every request on a connection is decided by itself, so the gateway has to know where each ends. `RequestHeadParser` and
`BodyReader` make sure that there is one way only to read that. The bytes are passed on as they are, but for a request
that offers to switch to a protocol in which nothing can be checked any more (`rewriting`).

A request is looked at only when the response before it is complete, so a denial can always be answered in its place;
`ResponseReader` finds that end. A response may come before the request is complete, so a request with
a body is sent by a task of its own. Between requests a server that hangs up ends the connection, as the client would
see it without a gateway; and a client that ends its side while it waits is reported to the server.

Between requests a client may be silent for ever, and so may both sides within a body. But a head or a line of which
there is a part has to be complete before long. What is in our hands is accounted for: a part of a head, be it the
client's or the server's, is kept only while there is room, and of bodies, when there is none, a page at a time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from math import inf
from socket import MSG_PEEK
from typing import Final, TypeAlias

from belljar.gateway.io.loop import Task, Timeout
from belljar.gateway.io.relay import Relay
from belljar.gateway.io.streams import CHUNK, Stream
from belljar.gateway.limits import Unfinished
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.tcp.denials import say_goodbye
from belljar.gateway.tcp.firstbytes import HttpClient
from belljar.gateway.tcp.responses import ResponseReader
from belljar.gateway.tcp.rewriting import offers_other_protocols, rewrite
from belljar.wire.http.body import BodyReader
from belljar.wire.http.framing import NO_BODY
from belljar.wire.http.head import Http2Preface, RequestHead, RequestHeadParser
from belljar.wire.outcome import NEED_MORE, Refuse

AnyHead: TypeAlias = RequestHead | Http2Preface | Refuse

_PAGE: Final = 4096
_COPIES: Final = 2


class HttpRelay:
    """A connection on which requests follow each other."""

    def __init__(
        self, sandbox: SandboxState, relay: Relay, check: Callable[[AnyHead], None], *, answer_is_owed: bool
    ) -> None:
        """`check` decides each request. If an answer is owed, a server that ends without one is taken for lost."""
        self._loop, self._sandbox, self._relay, self._check = sandbox.loop, sandbox, relay, check
        self._answer_is_owed = answer_is_owed
        self._unread = b""
        """What the client has sent of what comes next."""
        self._passed = relay.up.bytes
        """How many bytes of the next head the server has already."""
        self._in_step = True
        """Whether both sides agree on where the next request begins."""
        self.is_answering = False
        """Whether the client has a part of a response."""

    async def run(self, first: HttpClient) -> None:
        """Serve requests until either side has had enough. Raises what `check` raises, and OSError."""
        self._unread, first.received = first.received, b""
        while (read := await self._next_head()) is not None:
            head, raw = read
            self._check(head)
            if not isinstance(head, RequestHead):
                raise ConnectionResetError("what cannot be read cannot be passed on")
            if offers_other_protocols(head):
                raw = rewrite(head, head.target, keep_alive=head.keep_alive)
            try:
                response = await self._exchange(head, raw)
            finally:
                self._relay.client.watch.on_readable = None  # also if somebody else has the last word
            if response.has_switched:
                await self._switch()
                return
            if not (head.keep_alive and self._in_step and response.keep_alive):
                break
        self._relay.upstream.close()
        await say_goodbye(self._loop, self._relay.client, b"")
        self._relay.close()

    async def _next_head(self) -> tuple[AnyHead, bytes] | None:
        """Read the next head, and return also its bytes; None at the end of the stream, or if it takes too long."""
        parser = RequestHeadParser()
        data = self._unread or await self._next_bytes()
        answer = parser.feed(data) if data else NEED_MORE
        if data and answer is NEED_MORE:
            with suppress(TimeoutError), self._sandbox.handshake(), self._in_time():
                while answer is NEED_MORE and (data := await self._next_bytes()):
                    answer = parser.feed(data)
        if answer is NEED_MORE:
            return None
        self._unread = parser.trailing
        return answer, parser.received.removesuffix(self._unread)

    def _in_time(self, due: float = inf) -> Timeout:
        """Raise TimeoutError if something that has begun takes too long, or is not there when it is due."""
        return self._loop.timeout(min(self._sandbox.limits.first_bytes_seconds, due - self._loop.clock()))

    async def _next_bytes(self) -> bytes:
        """Read from the client, unless the server hangs up."""
        with self._server_is_watched() as server_is_there:
            return await self._relay.client.read_to_keep() if server_is_there else b""

    @contextmanager
    def _server_is_watched(self) -> Iterator[bool]:
        """Tell whether the server still listens while nothing is expected of it; end the connection if it stops to."""
        server = self._relay.upstream
        server.watch.on_readable = lambda: self._relay.close() if _has_something(server) else None
        try:
            yield not _has_something(server)
        finally:
            server.watch.on_readable = None

    async def _exchange(self, head: RequestHead, raw: bytes) -> ResponseReader:
        """Pass on one request and its response; return what the response has led to."""
        if head.body == NO_BODY:
            await self._pass_on(raw)
            self._watch_waiting_client()
            return await self._pass_response(head)
        sending = self._loop.spawn(self._pass_request(head, raw, self._loop.current))
        try:
            response = await self._pass_response(head)
            if response.keep_alive and not sending.done:
                await self._finish_request(sending)
        finally:
            sending.cancel()
        return response

    async def _finish_request(self, sending: Task) -> None:
        """Pass on the rest of a request that was answered early, if the server takes it."""
        with self._server_is_watched() as server_is_there:
            if server_is_there:
                await self._loop.join(sending)
            else:
                self._in_step = False

    async def _pass_request(self, head: RequestHead, raw: bytes, waiting: Task | None) -> None:
        """Pass on a request with a body; whoever waits for the response is told if it breaks off."""
        body, data = BodyReader(head.body), self._unread
        try:
            while True:
                own = body.feed(data)
                if isinstance(own, Refuse):
                    self._check(own)
                    return
                await self._pass_on(raw + data[:own])
                if body.ended or not self._in_step:
                    break
                raw, data = b"", await self._more_of_the_body(body)
        except Exception as error:  # noqa: BLE001 - raised where the response is waited for
            if waiting is not None:
                waiting.throw(error)
            return
        self._unread = data[own:]
        self._watch_waiting_client()

    async def _more_of_the_body(self, body: BodyReader) -> bytes:
        self._let_go()
        with self._in_time() if body.within_line else nullcontext():
            data = await self._relay.client.read(self._piece())
        if not data:
            raise ConnectionResetError("the request breaks off")
        return data

    async def _pass_on(self, data: bytes) -> None:
        """Send to the server; one that takes no more may still have an answer."""
        passed, self._passed = self._passed, 0
        self._relay.up.bytes += len(data) - passed
        try:
            with self._sandbox.buffers.holding(_COPIES * len(data)):
                await self._relay.upstream.write(data[passed:])
        except OSError:
            self._in_step = False

    def _piece(self) -> int:
        """Return how much of a body may be read at once."""
        return CHUNK if self._sandbox.buffers.left >= _COPIES * CHUNK else _PAGE

    def _let_go(self) -> None:
        """Take note that nothing is kept of what the client has said, but for what comes next."""
        kept = self._relay.client.kept
        if kept is not None:
            kept.let_go()
            kept.keep(self._unread)

    def _watch_waiting_client(self) -> None:
        """Look after a client that waits: it may have gone, or have ended its side, which is passed on."""
        self._relay.client.watch.on_readable = self._look_after_client
        self._look_after_client()

    def _look_after_client(self) -> None:
        client = self._relay.client
        try:
            ended = not client.socket.recv(1, MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            self._relay.abort()
            return
        if ended and not self._unread:
            client.watch.on_readable = None
            self._relay.upstream.end()

    async def _pass_response(self, head: RequestHead) -> ResponseReader:
        response = ResponseReader(head, head.upgrade if not offers_other_protocols(head) else None)
        self._let_go()
        kept, head_is_due = Unfinished(self._sandbox), inf
        try:
            while not response.ended:
                with self._in_time(head_is_due) if response.within_line else nullcontext():
                    data = await self._relay.upstream.read(self._piece())
                own = response.feed(data)
                if not data and self._answer_is_owed and not self.is_answering:
                    raise ConnectionResetError("it has ended before it could answer")
                if response.within_head:
                    kept.keep(data)
                    head_is_due = min(head_is_due, self._loop.clock() + self._sandbox.limits.first_bytes_seconds)
                else:
                    kept.let_go()
                    head_is_due = inf
                await self._answer(data, own)
        finally:
            kept.let_go()
        self.is_answering = False
        return response

    async def _answer(self, data: bytes, own: int) -> None:
        """Pass on to the client what belongs to the response."""
        if own < len(data):
            self._in_step = False  # what a server says unasked, the client would take for its next answer
            data = data[:own]
        self.is_answering = True
        with self._sandbox.buffers.holding(_COPIES * len(data)):
            await self._relay.client.write(data)
        self._relay.down.bytes += len(data)

    async def _switch(self) -> None:
        """Leave the connection to a protocol that both sides have agreed on."""
        await self._pass_on(self._unread)
        self._relay.down.start()
        self._relay.up.start()


def _has_something(stream: Stream) -> bool:
    """Tell whether a server says something unasked, be it goodbye."""
    try:
        stream.socket.recv(1, MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
