"""The answers that Belljar gives to DNS questions.

An ``DnsAnswer`` says what to tell the client, whatever the transport: one decision serves UDP and TCP, and
only the encoding differs. A datagram holds what the client can take, and at most ``MAX_DATAGRAM`` bytes.
The text that explains an error gives way first; if the records do not fit even so, all of them are left
out and the TC bit asks the client to come back over TCP, since half a set of addresses could be taken for
the whole.

The answers are a resolver's: recursion is available, nothing is authoritative. EDNS, and with it an
Extended DNS Error, is spoken to those who spoke it first.

"No data" comes with an SOA record, because without one it is not to be cached (RFC 2308, 5), and clients
would ask again and again for the types that no name has here. Errors come without: what is denied or
failing now may be granted or mended a moment later.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from belljar.names import Address
from belljar.wire.dns.format import CLASS_IN, HEADER, MAX_DATAGRAM, OPT, Flag, InfoCode, Rcode, RecordType, wire_name
from belljar.wire.dns.question import Query, RefusedQuery

MAX_MESSAGE: Final = 65535
"""What the length in front of a message over TCP can say."""

MAX_EXTRA_TEXT: Final = 200
"""The most bytes of text in an Extended DNS Error; longer texts are cut."""

_EVERYONE_TAKES: Final = 512
_RECORD: Final = struct.Struct("!3HLH")
_SAME_NAME: Final = 0xC000 | HEADER.size  # a pointer to the name in the question
_SOA_NUMBERS: Final = struct.Struct("!5L")
_EXTENDED_ERROR: Final = struct.Struct("!3H")
_EXTENDED_ERROR_OPTION: Final = 15


@dataclass(frozen=True, slots=True)
class ExtendedError:
    """Why an answer is what it is (RFC 8914): a code for programs, a text for people."""

    code: InfoCode
    text: str = ""


class DnsAnswer(NamedTuple):
    """What to say to a query; records are encoded, and belong to the name in the question."""

    query: Query
    rcode: Rcode = Rcode.NOERROR
    records: tuple[bytes, ...] = ()
    authority: tuple[bytes, ...] = ()
    error: ExtendedError | None = None

    def datagram(self) -> bytes:
        """Return the message for UDP, truncated if the client could not take it whole."""
        edns = self.query.edns
        wanted = edns.udp_payload if edns else _EVERYONE_TAKES
        return self._encode(max(_EVERYONE_TAKES, min(wanted, MAX_DATAGRAM)))

    def message(self) -> bytes:
        """Return the message for TCP, without the length in front."""
        return self._encode(MAX_MESSAGE)

    def _encode(self, limit: int) -> bytes:
        message = self._assemble(self.records, self.authority, limit)
        if len(message) <= limit:
            return message
        return self._assemble((), (), limit, Flag.TC)

    def _assemble(
        self, records: tuple[bytes, ...], authority: tuple[bytes, ...], limit: int, truncation: int = 0
    ) -> bytes:
        body = b"".join((self.query.question, *records, *authority))
        opt = self._opt(limit - HEADER.size - len(body))
        counts = 1, len(records), len(authority), 1 if opt else 0
        return HEADER.pack(self.query.id, self._flags() | truncation, *counts) + body + opt

    def _flags(self) -> int:
        recursion_desired = Flag.RD if self.query.recursion_desired else 0
        checking_disabled = Flag.CD if self.query.checking_disabled else 0
        return Flag.QR | recursion_desired | Flag.RA | checking_disabled | self.rcode & 0xF

    def _opt(self, room: int) -> bytes:
        edns = self.query.edns
        if edns is None:
            return b""
        options = _encode_error(self.error, room - OPT.size) if self.error else b""
        flags = Flag.DO if edns.dnssec_ok else 0
        return OPT.pack(0, RecordType.OPT, MAX_DATAGRAM, self.rcode >> 4, 0, flags, len(options)) + options


def address_answer(query: Query, addresses: Iterable[Address], ttl: int) -> DnsAnswer:
    """DnsAnswer with addresses, which must be of the family that the query asks for."""
    records = [
        _record(RecordType.A if address.version == 4 else RecordType.AAAA, ttl, address.packed) for address in addresses
    ]
    return DnsAnswer(query, records=tuple(records))


def pointer_answer(query: Query, name: str, ttl: int) -> DnsAnswer:
    """DnsAnswer with the canonical name of the address that the query asks about."""
    return DnsAnswer(query, records=(_record(RecordType.PTR, ttl, wire_name(name)),))


def no_data_answer(query: Query, ttl: int, error: ExtendedError | None = None) -> DnsAnswer:
    """DnsAnswer that the name has nothing of this type, which clients may remember for the time given."""
    # The name itself poses as the zone that was searched, so the answer says nothing about any other name.
    soa = wire_name("belljar.internal") + b"\0" + _SOA_NUMBERS.pack(1, ttl, ttl, ttl, ttl)
    return DnsAnswer(query, authority=(_record(RecordType.SOA, ttl, soa),), error=error)


def refusal_answer(message: bytes, refusal: RefusedQuery) -> bytes | None:
    """Return the answer to a refused message, for either transport; None if there must not be one."""
    if refusal.rcode is None:
        return None
    if refusal.query is not None:
        error = ExtendedError(InfoCode.NOT_SUPPORTED, f"{refusal.fault}: {refusal.detail}")
        return DnsAnswer(refusal.query, refusal.rcode, error=error).datagram()
    ident, flags, *_ = HEADER.unpack_from(message)
    repeated = flags & (Flag.OPCODE | Flag.RD)
    return HEADER.pack(ident, Flag.QR | repeated | Flag.RA | refusal.rcode, 0, 0, 0, 0)


def _record(kind: RecordType, ttl: int, data: bytes) -> bytes:
    return _RECORD.pack(_SAME_NAME, kind, CLASS_IN, ttl, len(data)) + data


def _encode_error(error: ExtendedError, room: int) -> bytes:
    room_for_text = max(0, min(room - _EXTENDED_ERROR.size, MAX_EXTRA_TEXT))
    text = error.text.encode("utf-8", "replace")[:room_for_text]
    whole = text.decode("utf-8", "ignore").encode()  # the cut may have split the last character
    return _EXTENDED_ERROR.pack(_EXTENDED_ERROR_OPTION, 2 + len(whole), error.code) + whole
