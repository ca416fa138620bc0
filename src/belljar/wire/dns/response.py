"""The gateway's own questions to a name server, and what is believed of the answers.

Theory of operation. Whoever sends a datagram with the right addresses on it can pose as the server. So an answer
counts only if it repeats what was sent to the letter: the identifier, and the question with its mixture of upper and
lower case, both chosen at random by whoever asks. Of an answer that counts, little is believed: the addresses at the
end of the chain of aliases that begins at the name asked for. Records that the chain does not touch are stepped over.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeAlias

from belljar.names import Address
from belljar.wire.dns.format import (
    CLASS_IN,
    HEADER,
    MAX_DATAGRAM,
    OPT,
    TYPE_AND_CLASS,
    Flag,
    Rcode,
    RecordType,
    wire_name,
)
from belljar.wire.dns.records import DnsRecord, MalformedError, read_name, read_sections
from belljar.wire.outcome import Fault, Refuse

MAX_ALIASES: Final = 16
"""The most aliases between a name and its addresses; a loop is a chain that is longer."""

_MIN_SOA: Final = 22  # two names and five numbers, of which the last counts here
_ADDRESS_SIZES: Final[dict[int, int]] = {RecordType.A: 4, RecordType.AAAA: 16}


class SentQuery(NamedTuple):
    """A question as it was sent, which is how its answer has to repeat it."""

    id: int
    kind: int
    question: bytes

    @property
    def name(self) -> bytes:
        """The name in the question, in lower case."""
        return self.question[: -TYPE_AND_CLASS.size].lower()

    @property
    def message(self) -> bytes:
        """The whole message, without the length that TCP wants in front."""
        opt = OPT.pack(0, RecordType.OPT, MAX_DATAGRAM, 0, 0, 0, 0)
        return HEADER.pack(self.id, Flag.RD, 1, 0, 0, 1) + self.question + opt

    def has_id_of(self, message: bytes) -> bool:
        """Tell whether a message carries the identifier, which is the first thing that a forger has to guess."""
        return message[:2] == self.id.to_bytes(2, "big")


@dataclass(frozen=True, slots=True)
class Resolution:
    """The name has addresses of the kind asked for."""

    addresses: tuple[Address, ...]
    ttl: int


@dataclass(frozen=True, slots=True)
class NoData:
    """The name exists, but has no address of the kind asked for."""

    ttl: int


@dataclass(frozen=True, slots=True)
class NoSuchName:
    """The name does not exist."""

    ttl: int


@dataclass(frozen=True, slots=True)
class ServerFailure:
    """The server cannot or will not tell."""

    rcode: int


@dataclass(frozen=True, slots=True)
class Truncated:
    """The answer does not fit in a datagram: the question is to be asked over TCP."""


class Sections(NamedTuple):
    """The records of an answer that is neither an error nor cut off."""

    answers: list[DnsRecord]
    authorities: list[DnsRecord]


Answer: TypeAlias = Resolution | NoData | NoSuchName
Response: TypeAlias = Answer | ServerFailure | Truncated


def build_query(name: str, kind: int, ident: int) -> SentQuery:
    """Ask for records of a name: plain ASCII, in any mixture of upper and lower case."""
    return SentQuery(ident, kind, wire_name(name) + TYPE_AND_CLASS.pack(kind, CLASS_IN))


def read_response(message: bytes, sent: SentQuery) -> Response | Refuse:
    """Read a complete message as the answer to a question."""
    try:
        return _read_response(message, sent)
    except MalformedError as malformed:
        return Refuse(Fault.MALFORMED_DNS, str(malformed))


def _read_response(message: bytes, sent: SentQuery) -> Response:
    opened = open_response(message, sent)
    if not isinstance(opened, Sections):
        return opened
    aliases, found = follow_aliases(message, opened.answers, sent.name, sent.kind)
    if not found:
        return NoData(negative_ttl(message, opened.authorities))
    addresses = dict.fromkeys(_read_address(message, record) for record in found)
    return Resolution(tuple(addresses), min(record.ttl for record in (*aliases, *found)))


def open_response(message: bytes, sent: SentQuery) -> Sections | NoSuchName | ServerFailure | Truncated:
    """Read whatever the answer to any question has in common. Raises MalformedError."""
    if len(message) < HEADER.size:
        raise MalformedError("ends within the header")
    ident, flags, questions, *counts = HEADER.unpack_from(message)
    if ident != sent.id or questions != 1 or not message.startswith(sent.question, HEADER.size):
        raise MalformedError("does not repeat the question")
    if flags & (Flag.QR | Flag.OPCODE) != Flag.QR:
        raise MalformedError("is not the answer to a query")
    if flags & Flag.TC:
        return Truncated()
    answers, authorities, additional = read_sections(message, HEADER.size + len(sent.question), counts)
    rcode = flags & 0xF | _upper_rcode(additional)
    if rcode == Rcode.NXDOMAIN:
        return NoSuchName(negative_ttl(message, authorities))
    if rcode != Rcode.NOERROR:
        return ServerFailure(rcode)
    return Sections(answers, authorities)


def follow_aliases(
    message: bytes, records: Iterable[DnsRecord], name: bytes, kind: int
) -> tuple[list[DnsRecord], list[DnsRecord]]:
    """Return the aliases in the chain that begins at a name, and the records of a kind that it leads to, if any.

    Raises MalformedError.
    """
    aliases: dict[bytes, tuple[bytes, DnsRecord]] = {}
    wanted: dict[bytes, list[DnsRecord]] = {}
    for record in records:
        if record.group == CLASS_IN and record.kind == kind:
            wanted.setdefault(record.owner, []).append(record)
        elif record.group == CLASS_IN and record.kind == RecordType.CNAME:
            target = _read_target(message, record)
            if aliases.setdefault(record.owner, (target, record))[0] != target:
                raise MalformedError("has two aliases for one name")
    followed: list[DnsRecord] = []
    for _ in range(MAX_ALIASES + 1):
        if name in wanted or name not in aliases:
            return followed, wanted.get(name, [])
        name, alias = aliases[name]
        followed.append(alias)
    raise MalformedError(f"has more than {MAX_ALIASES} aliases in a chain")


def _read_address(message: bytes, record: DnsRecord) -> Address:
    data = message[record.start : record.end]
    if len(data) != _ADDRESS_SIZES[record.kind]:
        raise MalformedError("has an address of the wrong size")
    return ip_address(data)


def _read_target(message: bytes, record: DnsRecord) -> bytes:
    target, end = read_name(message, record.start)
    if end != record.end:
        raise MalformedError("has an alias that does not end with its record")
    return target


def _upper_rcode(additional: Iterable[DnsRecord]) -> int:
    """Return the upper bits of the rcode, which EDNS keeps where other records have their TTL."""
    return max((record.raw_ttl >> 24 << 4 for record in additional if record.kind == RecordType.OPT), default=0)


def negative_ttl(message: bytes, authorities: Iterable[DnsRecord]) -> int:
    """Return how long a "no" holds: as long as the zone's SOA record says, or not at all (RFC 2308, 5)."""
    for record in authorities:
        if record.group == CLASS_IN and record.kind == RecordType.SOA and record.end - record.start >= _MIN_SOA:
            minimum = int.from_bytes(message[record.end - 4 : record.end], "big")
            return min(record.ttl, minimum)
    return 0
