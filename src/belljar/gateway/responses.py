"""Following a server's response in HTTP/1, to know when it is complete and what may follow it.

h11 reads the heads, each of them at once and only if it is of a reasonable size, since reading takes time for every
line. The body is counted (`httpresponse`).
"""

import re
from typing import Final

import h11

from belljar.wire.httphead import RequestHead
from belljar.wire.httpresponse import ResponseBody
from belljar.wire.outcome import Refuse

MAX_HEAD: Final = 1 << 17
MAX_LINES: Final = 256

_END: Final = re.compile(rb"\n\r?\n")
_WITHOUT_BODY: Final = (204, 304)


class ResponseReader:
    """Reads the response to one request."""

    def __init__(self, request: RequestHead, upgrade: bytes | None) -> None:
        """Know what a response depends on: the method, and which protocols were offered to switch to."""
        self._method = request.method
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        headers = [(b"host", b"-")]
        if upgrade is not None:
            headers += [(b"connection", b"upgrade"), (b"upgrade", upgrade)]
        self._connection.send(h11.Request(method=request.method, target="/", headers=headers))
        self._connection.send(h11.EndOfMessage())
        self._head = bytearray()
        self._body: ResponseBody | None = None
        self.ended = False
        self.has_switched = False
        """Whether the server has agreed to another protocol."""
        self._keep_alive = False

    @property
    def keep_alive(self) -> bool:
        """Whether the response is complete, and another one may follow it."""
        return self.ended and self._keep_alive

    @property
    def within_line(self) -> bool:
        """Whether something has begun, other than the body's content, and is to be complete before long."""
        return bool(self._head) if self._body is None else self._body.within_line

    def feed(self, data: bytes) -> int:
        """Return how many of the next bytes belong to the response; none are the end of the stream.

        Raises ConnectionResetError for what is no response.
        """
        at = 0
        if not data and self._body is None:
            if self._head:
                raise ConnectionResetError("the response breaks off")
            self.ended = True
        while at < len(data) and self._body is None and not self.ended:
            at = self._read_head(data, at)
        if self._body is not None and not self.ended:
            if at < len(data) or not data:
                own = self._body.feed(data[at:])
                if isinstance(own, Refuse):
                    raise ConnectionResetError(f"not HTTP: {own.detail}")
                at += own
            self.ended = self._body.ended
        return at

    def _read_head(self, data: bytes, at: int) -> int:
        """Read a head, from a position on; return the position behind it."""
        before = len(self._head)
        self._head += data[at : at + MAX_HEAD - before]
        end = _END.search(self._head, max(0, before - 2))
        if end is None:
            if len(self._head) >= MAX_HEAD or self._head[0] <= 0x20:
                raise ConnectionResetError("not HTTP: a head without end, or no head")
            return len(data)
        head = bytes(self._head[: end.end()])
        self._head.clear()
        if head.count(b"\n") > MAX_LINES:
            raise ConnectionResetError(f"the response has more than {MAX_LINES} header lines")
        self._take(self._event(head))
        return len(data) if self.has_switched else at + len(head) - before

    def _event(self, head: bytes) -> h11.Response | h11.InformationalResponse:
        try:
            self._connection.receive_data(head)
            event = self._connection.next_event()
        except h11.RemoteProtocolError as error:
            raise ConnectionResetError(f"not HTTP: {error}") from None
        if not isinstance(event, h11.Response | h11.InformationalResponse):
            raise ConnectionResetError("not HTTP: no head")
        return event

    def _take(self, event: h11.Response | h11.InformationalResponse) -> None:
        if isinstance(event, h11.InformationalResponse):
            self.ended = self.has_switched = event.status_code == 101
            return
        headers: dict[bytes, bytes] = {}
        for name, value in event.headers:
            headers[name] = headers[name] + b"," + value if name in headers else value
        options = {option.strip().lower() for option in headers.get(b"connection", b"").split(b",")}
        self._body = self._framing(event.status_code, headers)
        self._keep_alive = event.http_version >= b"1.1" and b"close" not in options and not self._body.to_the_end

    def _framing(self, status: int, headers: dict[bytes, bytes]) -> ResponseBody:
        """Tell how the body ends (RFC 9112, 6.3); h11 has made sure of the headers' values."""
        if self._method == "HEAD" or status in _WITHOUT_BODY:
            return ResponseBody(0)
        if b"transfer-encoding" in headers:
            return ResponseBody(chunked=True)
        return ResponseBody(int(headers[b"content-length"]) if b"content-length" in headers else None)
