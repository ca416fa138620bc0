"""What a sandbox is told of the answer that somebody else gave to its question.

Nothing is passed on as it came. Of the answer section, the records that were asked for are written anew, with the
aliases that lead to them: names in full instead of compressed, so that nothing points into a message that is not there.
All else is left out, and with it every address that came along unasked (A and AAAA records are never asked for here,
and there is no other way for one to get in).
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

from belljar.wire.dns.format import CLASS_IN, HEADER
from belljar.wire.dns.records import DnsRecord, MalformedError, read_name
from belljar.wire.dns.response import (
    NoData,
    NoSuchName,
    Sections,
    SentQuery,
    ServerFailure,
    Truncated,
    follow_aliases,
    negative_ttl,
    open_response,
)
from belljar.wire.outcome import Fault, Refuse

_FIXED_PART: Final = struct.Struct("!2HLH")
_MAX_DATA: Final = 65535
_NAME_IN_QUESTION: Final = (0xC000 | HEADER.size).to_bytes(2, "big")

_NAMES_IN_DATA: Final = {
    **dict.fromkeys((2, 3, 4, 5, 7, 8, 9, 12, 39), (0, 1)),  # NS, CNAME, PTR, DNAME and forgotten ones
    **dict.fromkeys((14, 17), (0, 2)),  # MINFO, RP
    **dict.fromkeys((15, 18, 21, 36), (2, 1)),  # MX, AFSDB, RT, KX
    6: (0, 2),  # SOA
    26: (2, 2),  # PX
    33: (6, 1),  # SRV
}
"""Types whose data may hold compressed names (RFC 3597, 4): how many bytes come first, and how many names then."""


@dataclass(frozen=True, slots=True)
class ForwardedRecords:
    """ForwardedRecords that belong behind the question, encoded."""

    records: tuple[bytes, ...]


Forwarded: TypeAlias = ForwardedRecords | NoData | NoSuchName


def read_records(message: bytes, sent: SentQuery) -> Forwarded | ServerFailure | Truncated | Refuse:
    """Read a complete message as the answer to a question for records of any type."""
    try:
        return _read_records(message, sent)
    except MalformedError as malformed:
        return Refuse(Fault.MALFORMED_DNS, str(malformed))


def _read_records(message: bytes, sent: SentQuery) -> Forwarded | ServerFailure | Truncated:
    opened = open_response(message, sent)
    if not isinstance(opened, Sections):
        return opened
    aliases, found = follow_aliases(message, opened.answers, sent.name, sent.kind)
    if not found:
        return NoData(negative_ttl(message, opened.authorities))
    return ForwardedRecords(tuple(_write(message, record, sent) for record in (*aliases, *found)))


def _write(message: bytes, record: DnsRecord, sent: SentQuery) -> bytes:
    owner = _NAME_IN_QUESTION if record.owner == sent.name else record.owner
    data = _data(message, record)
    return owner + _FIXED_PART.pack(record.kind, CLASS_IN, record.ttl, len(data)) + data


def _data(message: bytes, record: DnsRecord) -> bytes:
    """Return the data of a record with the names in it in full."""
    before, count = _NAMES_IN_DATA.get(record.kind, (0, 0))
    position = record.start + before
    data = message[record.start : position]
    for _ in range(count):
        name, position = read_name(message, position)
        data += name
    if position > record.end:
        raise MalformedError("has a name that does not end with its record")
    data += message[position : record.end]
    if len(data) > _MAX_DATA:
        raise MalformedError("has a record that is too large without compression")
    return data
