"""The body of an HTTP/1 response: at which byte does it end?

Who reads here wants to know when a server has answered, and decides nothing by it; so servers are forgiven what clients
forgive them: extensions of chunks, trailers, ends of lines without CR. Small chunks are stepped over many at a time, as
in `body`.
"""

import re
from typing import Final

from belljar.wire.http.body import SMALL, small_chunks
from belljar.wire.outcome import Fault, Refuse

MAX_CHUNK_LINE: Final = 512
MAX_TRAILERS: Final = 8192

_EXTENSION: Final = rb"[ \t]*+(?:;[^\r\n]*+)?+"
_BOUNDARY: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,20})%b\r\n" % _EXTENSION)
_BOUNDARY_SO_FAR: Final = re.compile(rb"\r(?:\n(?:[0-9A-Fa-f]{1,20}%b\r?)?)?" % _EXTENSION)
_END_OF_TRAILERS: Final = re.compile(rb"\n\r?\n")


class ResponseBody:
    """Counts the bytes of one body: of a known length, in chunks, or up to the end of the stream."""

    __slots__ = ("_chunked", "_left", "_line", "_refused", "_trailers", "ended", "to_the_end")

    def __init__(self, length: int | None = None, *, chunked: bool = False) -> None:
        self._chunked = chunked
        self.to_the_end = length is None and not chunked
        """Whether it ends with the stream."""
        self._left = length or 0
        self._line = bytearray(b"\r\n")  # what stands before the first chunk, at the end of the head
        self._trailers = False
        self._refused: Refuse | None = None
        self.ended = length == 0

    @property
    def within_line(self) -> bool:
        """Whether a line that is not the server's content has begun, and not ended."""
        return self._chunked and not self._left and (self._trailers or len(self._line) not in (0, 2))

    def feed(self, data: bytes) -> int | Refuse:
        """Return how many of the next bytes belong to the body: all, or those up to its end. None end the stream."""
        if not data and not self.ended:
            self.ended = self.to_the_end
            if not self.ended:
                self._refused = Refuse(Fault.MALFORMED_HTTP, "the response breaks off")
        if self.to_the_end:
            return len(data)
        at = 0
        while at < len(data) and not self.ended and self._refused is None:
            if self._left:
                step = min(self._left, len(data) - at)
                self._left -= step
                self.ended = not self._left and not self._chunked
                at += step
            elif self._trailers:
                at = self._read_trailers(data, at)
            elif not self._line and (found := _BOUNDARY.match(data, at)) and found.end() - at < MAX_CHUNK_LINE:
                at = self._pass_boundary(data, found)
            else:
                at = self._read_boundary(data, at)
        return at if self._refused is None else self._refused

    def _pass_boundary(self, data: bytes, found: re.Match[bytes]) -> int:
        """Pass what stands between chunks, and with it small ones; return the position behind them."""
        self._left = int(found[1], 16)
        if not self._left:
            self._begin_trailers()
        elif self._left < SMALL and (small := small_chunks(_EXTENSION).match(data, found.start())) and small[0]:
            self._left = 0
            return small.end()
        return found.end()

    def _begin_trailers(self) -> None:
        self._trailers = True
        self._line += b"\n"

    def _read_boundary(self, data: bytes, at: int) -> int:
        """Read what stands between chunks, from a position on; return the position behind it."""
        before = len(self._line)
        self._line += data[at : at + MAX_CHUNK_LINE - before]
        found = _BOUNDARY.match(self._line)
        if found is None:
            if len(self._line) >= MAX_CHUNK_LINE or not _BOUNDARY_SO_FAR.fullmatch(self._line):
                self._refused = Refuse(Fault.MALFORMED_HTTP, "the response is not in proper chunks")
            return len(data)
        self._line = bytearray()
        self._left = int(found[1], 16)
        if not self._left:
            self._begin_trailers()
        return at + found.end() - before

    def _read_trailers(self, data: bytes, at: int) -> int:
        """Read the lines behind the last chunk, up to an empty one; the line end before them is there already."""
        before = len(self._line)
        self._line += data[at : at + MAX_TRAILERS - before]
        found = _END_OF_TRAILERS.search(self._line, max(0, before - 2))
        if found is None:
            if len(self._line) >= MAX_TRAILERS:
                self._refused = Refuse(Fault.TOO_LARGE, f"the response has more than {MAX_TRAILERS} bytes of trailers")
            return len(data)
        self.ended = True
        return at + found.end() - before
