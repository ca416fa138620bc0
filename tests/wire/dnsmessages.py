"""DNS messages for the tests: by hand where they must be wrong, by dnspython where they must be right."""

import struct
from collections.abc import Sequence
from unittest import mock

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdatatype
from hypothesis import strategies as st

from belljar.wire.dns.question import Query, parse_query

ROOT = b"\0"
OPT = b"\0" + struct.pack("!HHLH", 41, 1232, 0, 0)


def wire_name(*labels: bytes) -> bytes:
    return b"".join(bytes([len(label)]) + label for label in labels) + ROOT


def wire_query(
    name: bytes = wire_name(b"example", b"org"),
    *,
    ident: int = 0x1234,
    flags: int = 0x0100,
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    qtype: int = 1,
    qclass: int = 1,
    rest: bytes = b"",
) -> bytes:
    """Write a query whose parts need not fit together."""
    return struct.pack("!6H", ident, flags, *counts) + name + struct.pack("!2H", qtype, qclass) + rest


def edns_record(
    *, name: bytes = ROOT, payload: int = 1232, ttl: int = 0, data: bytes = b"", length: int | None = None
) -> bytes:
    return name + struct.pack("!HHLH", 41, payload, ttl, len(data) if length is None else length) + data


def found(message: bytes) -> Query:
    query = parse_query(message)
    assert isinstance(query, Query)
    return query


def read_by_dnspython(message: bytes) -> dns.message.Message:
    """Parse with the oracle; only what is inside an EDNS option, which Belljar ignores, is left alone."""
    with mock.patch.dict(dns.edns._type_to_class, clear=True):
        return dns.message.from_wire(message)


def labels_of(message: dns.message.Message) -> tuple[bytes, ...]:
    """Return the labels asked for, without the root, in the case they came in."""
    return message.question[0].name.labels[:-1]


def _dns_name(labels: Sequence[bytes]) -> dns.name.Name:
    kept: list[bytes] = []
    for label in labels:
        if sum(len(other) + 1 for other in kept) + len(label) + 1 <= 254:
            kept.append(label)
    return dns.name.Name([*kept, b""])


def _option(code: int, data: bytes) -> dns.edns.Option:
    return dns.edns.GenericOption(dns.edns.OptionType.make(code), data)


host_labels = st.lists(
    st.from_regex(rb"[A-Za-z]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?", fullmatch=True), min_size=1, max_size=6
)
any_labels = st.lists(st.binary(min_size=1, max_size=63), max_size=8)
names = st.one_of(host_labels, any_labels).map(_dns_name)

options: st.SearchStrategy[list[dns.edns.Option]] = st.lists(
    st.one_of(
        st.just(dns.edns.CookieOption(b"12345678", b"")),
        st.just(dns.edns.ECSOption("192.0.2.0", 24)),
        st.integers(0, 300).map(lambda size: _option(dns.edns.OptionType.PADDING, bytes(size))),
        st.builds(_option, st.integers(65001, 65534), st.binary(max_size=40)),
    ),
    max_size=4,
)


@st.composite
def queries(draw: st.DrawFn) -> dns.message.Message:
    """Draw a query as dnspython makes it: any name, any type, with or without EDNS."""
    wanted_type = draw(st.one_of(st.sampled_from([1, 2, 5, 6, 12, 16, 28, 33, 64, 65, 255]), st.integers(0, 65535)))
    query = dns.message.make_query(
        draw(names), dns.rdatatype.RdataType.make(wanted_type), id=draw(st.integers(0, 65535))
    )
    for flag in draw(st.sets(st.sampled_from([dns.flags.RD, dns.flags.AD, dns.flags.CD]))):
        query.flags ^= flag
    if draw(st.booleans()):
        dnssec_ok = dns.flags.DO if draw(st.booleans()) else 0
        # The request_payload bounds what dnspython writes; by default it would be what the client can take.
        query.use_edns(0, dnssec_ok, draw(st.integers(0, 65535)), request_payload=65535, options=draw(options))
    return query


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """Draw a query in which a few bytes were changed, added or taken away."""
    message = bytearray(draw(queries()).to_wire())
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(message)))
        taken = draw(st.integers(0, 3))
        message[position : position + taken] = draw(st.binary(max_size=3))
    return bytes(message)
