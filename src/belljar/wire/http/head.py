"""The head of an HTTP/1 request: whom is it for, where does it end, and is there only one way to read it?

A gateway decides each request on a connection by itself, and forwards it only if there is exactly one way to
read it. What the server behind it might read differently (another host, another end, another request inside
the body) is refused, even where the RFC lets a recipient repair it, as with an empty line before a request.

Theory of operation. ``RequestHeadParser`` looks at the bytes as they arrive, at each of them once:

* the first word and the first line tell whether this is HTTP at all (``syntax`` says how);
* characters that no head may contain are refused where they stand;
* the empty line ends the head. Then all of it is read: the lines (``syntax``), the destination
  (``target``), the end of the request and what may follow it (``framing``).

The answer depends on the bytes alone, not on how they were cut, and nothing behind the head is looked at. If the
stream ends within the head, ``end()`` tells whether it may have been one.
"""

from dataclasses import dataclass
from typing import Final

from belljar.names import Host
from belljar.wire.http.framing import Body, read_framing
from belljar.wire.http.syntax import (
    MAX_HEADER_LINES,
    Headers,
    RefusedHeadError,
    check_characters,
    check_first_word,
    check_may_be_request_line,
    end_of_first_line,
    malformed,
    read_headers,
    read_request_line,
    values,
)
from belljar.wire.http.target import TargetForm, read_destination
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse

MAX_HEAD: Final = 65536
"""The most bytes that a head may take, with the empty line at its end."""

HTTP2_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

_EMPTY_LINE: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request that can be read in one way only."""

    method: str
    target: str
    """As sent."""

    form: TargetForm
    version: str
    """ "1.0" or "1.1"."""

    host: Host
    """Of the target if it names one, else of the Host header; they never differ."""

    port: int | None
    """None where the request names none; an http URL without a port names 80."""

    headers: Headers
    """In order, names in lower case."""

    body: Body
    keep_alive: bool
    """Another request may follow on the connection."""

    upgrade: bytes | None
    """The protocols that the client would rather speak, as a list."""

    expect_continue: bool
    """The client waits for 100 (Continue) before it sends the body."""


@dataclass(frozen=True, slots=True)
class Http2Preface:
    """The client speaks HTTP/2 without having asked (RFC 9113, 3.4)."""


class RequestHeadParser:
    """Reads one head from the start of a stream, or from where the request before it ended."""

    __slots__ = ("_answer", "_checked", "_end", "_line_end", "_received")

    def __init__(self) -> None:
        self._received = bytearray()
        self._checked = 0  # bytes of _received that need no second look
        self._line_end: int | None = None  # of the request line
        self._end = 0  # of the head
        self._answer: RequestHead | Http2Preface | NeedMore | Refuse = NEED_MORE

    @property
    def received(self) -> bytes:
        """Every byte fed, up to and including the piece that brought the answer: what to replay upstream."""
        return bytes(self._received)

    @property
    def trailing(self) -> bytes:
        """What came behind the head: of the body, or of the next request."""
        return bytes(self._received[self._end :]) if self._end else b""

    def feed(self, data: bytes) -> RequestHead | Http2Preface | NeedMore | Refuse:
        """Take the next piece of the stream. After an answer, further pieces are ignored and not kept."""
        if self._answer is NEED_MORE:
            self._received += data
            try:
                self._answer = self._advance()
            except RefusedHeadError as refused:
                self._answer = refused.refusal
        return self._answer

    def end(self) -> RequestHead | Http2Preface | Refuse:
        """Say that nothing follows. Part of a head is none, but there are servers that would serve it."""
        if self._answer is NEED_MORE:
            self._answer = self._breaks_off()
        return self._answer

    def _breaks_off(self) -> Refuse:
        try:
            check_may_be_request_line(bytes(self._received))
        except RefusedHeadError as refused:
            return refused.refusal
        return malformed("the stream ends within the head").refusal

    def _advance(self) -> RequestHead | Http2Preface | NeedMore:
        if HTTP2_PREFACE.startswith(self._received[: len(HTTP2_PREFACE)]):
            return self._read_preface()
        if self._line_end is None:
            self._read_first_line()
        if self._line_end is not None and self._find_end():
            return _read_head(bytes(self._received[: self._end]))
        if len(self._received) >= MAX_HEAD:
            raise RefusedHeadError(Fault.TOO_LARGE, f"the head takes more than {MAX_HEAD} bytes")
        return NEED_MORE

    def _read_preface(self) -> Http2Preface | NeedMore:
        if len(self._received) < len(HTTP2_PREFACE):
            return NEED_MORE
        self._end = len(HTTP2_PREFACE)
        return Http2Preface()

    def _read_first_line(self) -> None:
        check_first_word(self._received)
        self._line_end = end_of_first_line(self._received, self._checked, MAX_HEAD)
        self._checked = min(len(self._received), MAX_HEAD) if self._line_end is None else self._line_end

    def _find_end(self) -> bool:
        """Look for the empty line, and check the characters up to there."""
        empty_line = self._received.find(_EMPTY_LINE, max(0, self._checked - 2), MAX_HEAD)
        end = min(len(self._received), MAX_HEAD) if empty_line < 0 else empty_line + len(_EMPTY_LINE)
        self._checked = check_characters(self._received, self._checked, end)
        if empty_line >= 0:
            self._end = end
        return empty_line >= 0


def _read_head(head: bytes) -> RequestHead:
    first_line, *header_lines = head.removesuffix(_EMPTY_LINE).split(b"\r\n", MAX_HEADER_LINES + 1)
    method, target, version = read_request_line(first_line)
    headers = read_headers(header_lines)
    host_header = next(iter(values(headers, b"host")), None)
    destination = read_destination(method, target, version, host_header)
    framing = read_framing(method, version, headers)
    return RequestHead(
        method=method,
        target=target,
        form=destination.form,
        version=version,
        host=destination.host,
        port=destination.port,
        headers=headers,
        body=framing.body,
        keep_alive=framing.keep_alive,
        upgrade=framing.upgrade,
        expect_continue=framing.expect_continue,
    )
