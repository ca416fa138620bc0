"""The body of an HTTP/1 request: at which byte does it end?

Whoever forwards a body and whoever serves it must agree on that, or what follows is a request to one of them only. A
length is counted. Chunks (RFC 9112, 7.1) have one spelling here: a size of at most 15 digits, which fits every
counter, and no extensions and no trailers, which nobody sends and which readers end at different places.

Chunks can be as small as a byte, and then there are many. Small ones are stepped over many at a time, by a regular
expression that spells out each size; what that leaves is read one by one.
"""

import re
from functools import cache
from typing import Final

from belljar.wire.http.framing import Body
from belljar.wire.outcome import Fault, Refuse

# Between chunks, beginning with the end of the one before.
_BOUNDARY: Final = re.compile(rb"\r\n(?:(0{1,15})\r\n\r\n|((?!0+\r)[0-9A-Fa-f]{1,15})\r\n)")
_BOUNDARY_SO_FAR: Final = re.compile(rb"\r(?:\n(?:[0-9A-Fa-f]{1,15}\r?|0{1,15}\r\n\r?)?)?")
_LONGEST_BOUNDARY: Final = 2 + 15 + 4
SMALL: Final = 48
"""Chunks of fewer bytes are worth stepping over together."""


@cache  # made when it is needed: it takes milliseconds
def small_chunks(extension: bytes) -> re.Pattern[bytes]:
    """Return what matches small chunks in a row, each behind the end of the one before."""
    sizes = b"|".join(b"(?i:%x)%b\\r\\n.{%d}" % (size, extension, size) for size in range(1, SMALL))
    return re.compile(rb"(?:\r\n0{0,12}+(?:%b))*+" % sizes, re.DOTALL)


class BodyReader:
    """Counts the bytes of one body."""

    __slots__ = ("_boundary", "_chunked", "_left", "_refused", "ended")

    def __init__(self, body: Body) -> None:
        self._chunked = body.chunked
        self._left = body.length
        self._boundary = b"\r\n"  # what stands before the first chunk, at the end of the head
        self._refused: Refuse | None = None
        self.ended = not body.chunked and not body.length

    @property
    def within_line(self) -> bool:
        """Whether a line between chunks has begun, and not ended."""
        return len(self._boundary) not in (0, 2)

    def feed(self, data: bytes) -> int | Refuse:
        """Return how many of the next bytes belong to the body: all, or those up to its end."""
        at = 0
        while at < len(data) and not self.ended and self._refused is None:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                self.ended = not self._left and not self._chunked
            elif not self._boundary and (found := _BOUNDARY.match(data, at)):
                step = self._pass_boundary(data, found)
            else:
                step = self._read_boundary(data[at : at + _LONGEST_BOUNDARY])
            at += step
        return at if self._refused is None else self._refused

    def _pass_boundary(self, data: bytes, found: re.Match[bytes]) -> int:
        """Pass what stands between chunks, and with it small ones; return how many bytes that is."""
        if found[1]:
            self.ended = True
        else:
            self._left = int(found[2], 16)
            if self._left < SMALL and (small := small_chunks(b"").match(data, found.start())) and small[0]:
                self._left = 0
                return len(small[0])
        return len(found[0])

    def _read_boundary(self, data: bytes) -> int:
        """Read what stands between chunks; return how many of the bytes belong to it."""
        before = len(self._boundary)
        self._boundary += data
        found = _BOUNDARY.match(self._boundary)
        if found is None:
            if not _BOUNDARY_SO_FAR.fullmatch(self._boundary):
                detail = "the chunks of the body have extensions, trailers or a size that is not a plain number"
                self._refused = Refuse(Fault.AMBIGUOUS_HTTP_LENGTH, detail)
            return len(data)
        self._boundary = b""
        if found[1]:
            self.ended = True
        else:
            self._left = int(found[2], 16)
        return found.end() - before
