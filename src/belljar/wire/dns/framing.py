"""DNS over TCP: every message has its length in front, in two bytes (RFC 7766, 8)."""

from typing import Final

from belljar.wire.dns.format import HEADER
from belljar.wire.dns.question import MAX_QUERY
from belljar.wire.outcome import Fault, Refuse

_PREFIX: Final = 2
_SMALLEST: Final = HEADER.size


def frame(message: bytes) -> bytes:
    """Return the message as it is sent over TCP."""
    return len(message).to_bytes(_PREFIX, "big") + message


class DnsFrames:
    """Cuts a client's stream into queries.

    What comes out depends on the bytes alone, not on how they were cut: the queries in their order and, at
    the first length that no query can have, a Refuse, after which nothing comes. Less than one query is
    ever kept.
    """

    __slots__ = ("_buffer", "_refused", "_wanted")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = _PREFIX  # how many bytes it takes to go on
        self._refused = False

    def feed(self, data: bytes) -> list[bytes | Refuse]:
        """Take the next bytes of the stream, and return what is now complete; a Refuse is always the last."""
        found: list[bytes | Refuse] = []
        if self._refused:
            return found
        self._buffer += data
        if len(self._buffer) < self._wanted:
            return found
        stream, start, end = bytes(self._buffer), 0, len(self._buffer)
        self._wanted = _PREFIX
        while end - start >= _PREFIX:
            length = stream[start] << 8 | stream[start + 1]
            if not _SMALLEST <= length <= MAX_QUERY:
                return [*found, self._refuse(length)]
            body, start = start + _PREFIX, start + _PREFIX + length
            if end < start:
                self._wanted, start = _PREFIX + length, body - _PREFIX
                break
            found.append(stream[body:start])
        del self._buffer[:start]
        return found

    def _refuse(self, length: int) -> Refuse:
        self._refused = True
        self._buffer.clear()
        if length > MAX_QUERY:
            return Refuse(Fault.TOO_LARGE, f"announces a query of {length} bytes, more than {MAX_QUERY}")
        return Refuse(Fault.MALFORMED_DNS, f"announces a query of {length} bytes, less than a header")
