"""The names of the witness's world, and what its nameserver says to them.

A granted name says where it leads: `g7.v4.private.allowed.test` is probe 7's, has an IPv4 address only, and leads to a
private network.
"""

import re
import struct
from collections import Counter
from ipaddress import IPv4Address, ip_address
from typing import Final

from belljar.names import Address
from belljar.verify.probes import places
from belljar.wire.dns.answer import DnsAnswer, address_answer, no_data_answer
from belljar.wire.dns.format import CLASS_IN, RecordType, wire_name
from belljar.wire.dns.question import Query

_SECONDS: Final = 60
_RECORD: Final = struct.Struct("!2HLH")
_NAME_IN_QUESTION: Final = b"\xc0\x0c"
_FAMILIES: Final = {int(RecordType.A): 4, int(RecordType.AAAA): 6}

_GRANTED: Final = re.compile(
    rf"(?:(?:.+\.)?g(?P<number>\d+)\.|(?:.+\.)?)v(?P<family>[46])\.(?P<place>[a-z]+)\.{re.escape(places.ABOVE_GRANTED)}"
)

_FIXED: Final = {
    "web": places.ALLOWED,
    "retry": places.ALLOWED,
    "ssh": places.ALLOWED,
    "loopback": {4: "127.0.0.1", 6: "::1"},
    "metadata": {4: places.METADATA, 6: "fd00:ec2::254"},
    "embedded": {4: places.METADATA, 6: f"64:ff9b::{places.METADATA}"},
    "host": places.HOST,
    "late": places.LATE,
}

ANYWHERE: Final = {4: "203.0.113.254", 6: "2001:db8:bad::fffe"}
"""Where all other names lead, so that a question that has leaked out is answered."""


class Zone:
    """Answers the questions that reach the witness."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def answer(self, query: Query) -> DnsAnswer:
        """Return what the nameserver says."""
        family, name = _FAMILIES.get(query.qtype), query.name or ""
        if family is None:
            return no_data_answer(query, _SECONDS)
        if name.endswith(f".{places.ABOVE_MANY}"):
            return address_answer(query, [ip_address(places.ALLOWED[family])], _SECONDS)
        granted = _GRANTED.fullmatch(name)
        if granted is None:
            return address_answer(query, [ip_address(ANYWHERE[family])], _SECONDS)
        if int(granted["family"]) != family:
            return no_data_answer(query, _SECONDS)
        public = ip_address(places.ALLOWED[family])
        private = ip_address(
            (places.PRIVATE_V4 if family == 4 else places.PRIVATE_V6).format(number=int(granted["number"] or 0))
        )
        match granted["place"]:
            case "private":
                return address_answer(query, [private], _SECONDS)
            case "mixed":
                return address_answer(query, [public, private], _SECONDS)
            case "rebinding":
                self._asked[name] += 1
                return address_answer(query, [public if self._asked[name] == 1 else private], 0)
            case "alias":
                return _alias(query, f"{places.MARKER}.test", private)
            case place:
                return address_answer(query, [ip_address(_FIXED[place][family])], _SECONDS)


def _alias(query: Query, target: str, address: Address) -> DnsAnswer:
    name = wire_name(target)
    kind = RecordType.A if isinstance(address, IPv4Address) else RecordType.AAAA
    records = (
        _NAME_IN_QUESTION + _RECORD.pack(RecordType.CNAME, CLASS_IN, _SECONDS, len(name)) + name,
        name + _RECORD.pack(kind, CLASS_IN, _SECONDS, len(address.packed)) + address.packed,
    )
    return DnsAnswer(query, records=records)
