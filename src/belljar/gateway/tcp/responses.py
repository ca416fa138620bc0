"""Following a server's response in HTTP/1, to know when it is complete and what may follow it.

A head is read at once when it is complete (`wire.http.responsehead`), and only if it is of a reasonable size; there may
be so many interim responses. The body is counted (`wire.http.response`).
"""

import re
from typing import Final

from belljar.wire.http.head import RequestHead
from belljar.wire.http.response import ResponseBody
from belljar.wire.http.responsehead import ResponseHead, read_response_head
from belljar.wire.outcome import Refuse

MAX_HEAD: Final = 1 << 17
MAX_INTERIM: Final = 16
"""How many interim responses (1xx) one request may have."""

_END: Final = re.compile(rb"\n\r?\n")
_WITHOUT_BODY: Final = (204, 304)
_SWITCHING: Final = 101


class ResponseReader:
    """Reads the response to one request."""

    def __init__(self, request: RequestHead, upgrade: bytes | None) -> None:
        """Know what a response depends on: the method, and which protocols were offered to switch to."""
        self._method = request.method
        self._may_switch = upgrade is not None
        self._interim = 0
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
    def within_head(self) -> bool:
        """Whether a part of a head is kept until the rest of it has come."""
        return bool(self._head)

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
        room = at + MAX_HEAD - before
        if before:
            self._head += data[at:room]
            end = _END.search(self._head, max(0, before - 2))
        else:
            end = _END.search(data, at, room)
        if end is None:
            if not before:
                self._head += data[at:room]
            if len(self._head) >= MAX_HEAD or self._head[0] <= 0x20:
                raise ConnectionResetError("not HTTP: a head without end, or no head")
            return len(data)
        head = bytes(self._head[: end.end()]) if before else data[at : end.end()]
        self._head.clear()
        self._take(head)
        return len(data) if self.has_switched else at + len(head) - before

    def _take(self, raw: bytes) -> None:
        head = read_response_head(raw)
        if isinstance(head, Refuse):
            raise ConnectionResetError(f"not HTTP: {head.detail}")
        if head.is_interim:
            self._take_interim(head.status)
            return
        self._body = self._framing(head)
        self._keep_alive = head.keep_alive and not self._body.to_the_end

    def _take_interim(self, status: int) -> None:
        if status == _SWITCHING:
            if not self._may_switch:
                raise ConnectionResetError("not HTTP: a switch to another protocol that nobody has offered")
            self.ended = self.has_switched = True
            return
        self._interim += 1
        if self._interim > MAX_INTERIM:
            raise ConnectionResetError(f"more than {MAX_INTERIM} interim responses")

    def _framing(self, head: ResponseHead) -> ResponseBody:
        """Tell how the body ends (RFC 9112, 6.3)."""
        if self._method == "HEAD" or head.status in _WITHOUT_BODY:
            return ResponseBody(0)
        return ResponseBody(chunked=True) if head.chunked else ResponseBody(head.length)
