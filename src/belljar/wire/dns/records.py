"""The records of a DNS message: whose they are, of what type, and where their data stand.

A compression pointer must lead to a place in front of the labels that it continues, so every name has an end; pointers
and records are counted, so the end comes soon.
"""

import re
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from belljar.names import MAX_LABEL
from belljar.wire.dns.format import HEADER, MAX_WIRE_NAME

MAX_RECORDS: Final = 512
"""The most records in a message; one with more is refused."""

_MAX_TTL: Final = 0x7FFF_FFFF
_MAX_POINTERS: Final = 32  # in one name; servers need a handful
_POINTER: Final = 0xC0
_FIXED_PART: Final = struct.Struct("!2HLH")
_LABELS: Final = re.compile(
    b"(?:%b)*+" % b"|".join(b"%b.{%d}" % (re.escape(bytes([size])), size) for size in range(1, MAX_LABEL + 1)),
    re.DOTALL,
)


class MalformedError(Exception):
    """The message does not hold together; the text says where."""


class DnsRecord(NamedTuple):
    """One record; its data are the bytes of the message from `start` to `end`."""

    owner: bytes
    """In lower case and without compression, as all names here."""

    kind: int
    group: int
    """The class, or whatever else a record keeps in its place."""

    raw_ttl: int
    start: int
    end: int

    @property
    def ttl(self) -> int:
        """The time to live in seconds; the half of the values that would be negative are zero (RFC 2181, 8)."""
        return self.raw_ttl if self.raw_ttl <= _MAX_TTL else 0


def read_sections(message: bytes, position: int, counts: Iterable[int]) -> list[list[DnsRecord]]:
    """Read sections of so many records each, which are all that is left of a message. Raises MalformedError."""
    sections = []
    left = MAX_RECORDS
    for count in counts:
        left -= count
        if left < 0:
            raise MalformedError(f"has more than {MAX_RECORDS} records")
        section = []
        for _ in range(count):
            record = _read_record(message, position)
            position = record.end
            section.append(record)
        sections.append(section)
    if position != len(message):
        raise MalformedError("goes on behind its end")
    return sections


def read_name(message: bytes, position: int) -> tuple[bytes, int]:
    """Return the name that starts at a position, and the position behind it. Raises MalformedError."""
    try:
        return _read_name(message, position)
    except IndexError:
        raise MalformedError("ends within a name") from None


def _read_name(message: bytes, position: int) -> tuple[bytes, int]:
    name, end = b"", None
    pointers = 0
    while True:
        began = position
        if labels := _LABELS.match(message, began):
            name += labels[0]
            position = labels.end()
        if len(name) >= MAX_WIRE_NAME:
            raise MalformedError(f"has a name of more than {MAX_WIRE_NAME} bytes")
        length = message[position]
        if not length:
            return name.lower() + b"\0", end or position + 1  # lengths stay as they are: they are below the letters
        if length <= MAX_LABEL:
            raise MalformedError("ends within a name")
        if length < _POINTER:
            raise MalformedError("has a label of an unknown type")
        pointers += 1
        end = end or position + 2
        position = (length & ~_POINTER) << 8 | message[position + 1]
        if not HEADER.size <= position < began or pointers > _MAX_POINTERS:
            raise MalformedError("has a compression pointer that does not lead to an earlier name")


def _read_record(message: bytes, position: int) -> DnsRecord:
    owner, position = read_name(message, position)
    start = position + _FIXED_PART.size
    if start > len(message):
        raise MalformedError("ends within a record")
    kind, group, ttl, length = _FIXED_PART.unpack_from(message, position)
    if start + length > len(message):
        raise MalformedError("ends within a record's data")
    return DnsRecord(owner, kind, group, ttl, start, start + length)
