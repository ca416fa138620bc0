import struct
from ipaddress import ip_address
from itertools import pairwise

import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.dns.format import RecordType
from belljar.wire.dns.records import MAX_RECORDS
from belljar.wire.dns.response import (
    MAX_ALIASES,
    NoData,
    NoSuchName,
    Resolution,
    SentQuery,
    ServerFailure,
    Truncated,
    build_query,
    read_response,
)
from belljar.wire.outcome import Fault, Refuse
from tests.wire.dnsmessages import OPT, ROOT, edns_record, labels_of, read_by_dnspython, wire_name, wire_query

A_QUERY = build_query("wWw.exAmple.org", RecordType.A, 0x1234)
AAAA_QUERY = build_query("www.example.org", RecordType.AAAA, 7)
SOA = "example.org {ttl} IN SOA ns.example.org. admin.example.org. 1 2 3 4 {minimum}"
NOERROR_FLAGS = 0x8180


def rrsets(line: str) -> list[dns.rrset.RRset]:
    """Make a set of each value: those of one set, dnspython would shuffle."""
    name, ttl, group, kind, values = line.split(maxsplit=4)
    return [dns.rrset.from_text(f"{name}.", int(ttl), group, kind, value) for value in values.split(", ")]


def respond(sent: SentQuery, answers=(), authority=(), rcode=dns.rcode.NOERROR) -> bytes:
    """Answer a query by dnspython, with compression."""
    message = dns.message.make_response(dns.message.from_wire(sent.message), recursion_available=True)
    message.set_rcode(rcode)
    message.answer = [rrset for line in answers for rrset in rrsets(line)]
    message.authority = [rrset for line in authority for rrset in rrsets(line)]
    return message.to_wire(max_size=65535)


def addresses(*texts: str):
    return tuple(ip_address(text) for text in texts)


# Questions.


@pytest.mark.parametrize("sent", [A_QUERY, AAAA_QUERY], ids=["A", "AAAA"])
def test_a_query_is_read_by_others_as_it_was_meant(sent):
    query = dns.message.from_wire(sent.message)
    assert (query.id, query.question[0].rdtype, query.question[0].rdclass) == (sent.id, sent.kind, dns.rdataclass.IN)
    assert query.flags == dns.flags.RD
    assert (query.edns, query.payload, query.ednsflags, query.options) == (0, 1232, 0, ())
    assert not query.answer
    assert not query.authority


def test_the_case_of_the_name_is_sent_as_it_was_given():
    assert labels_of(dns.message.from_wire(A_QUERY.message)) == (b"wWw", b"exAmple", b"org")


@pytest.mark.parametrize(
    ("message", "matches"),
    [
        pytest.param(b"\x12\x34", True, id="the identifier alone"),
        pytest.param(b"\x12\x34rest", True, id="the identifier and more"),
        pytest.param(b"\x12\x35rest", False, id="another identifier"),
        pytest.param(b"\x12", False, id="half an identifier"),
        pytest.param(b"", False, id="nothing"),
    ],
)
def test_a_forger_has_to_guess_the_identifier(message, matches):
    assert A_QUERY.has_id_of(message) is matches


# Answers as servers give them.

FOUND = {
    "one address": (A_QUERY, ["www.example.org 60 IN A 192.0.2.7"], ["192.0.2.7"], 60),
    "several, in their order": (
        A_QUERY,
        ["www.example.org 60 IN A 192.0.2.9, 192.0.2.7, 192.0.2.8"],
        ["192.0.2.9", "192.0.2.7", "192.0.2.8"],
        60,
    ),
    "IPv6": (AAAA_QUERY, ["www.example.org 5 IN AAAA 2001:db8::7"], ["2001:db8::7"], 5),
    "IPv4 in IPv6, which is for others to judge": (
        AAAA_QUERY,
        ["www.example.org 5 IN AAAA ::ffff:127.0.0.1"],
        ["::ffff:127.0.0.1"],
        5,
    ),
    "an alias": (
        A_QUERY,
        ["www.example.org 60 IN CNAME cdn.example.net.", "cdn.example.net 70 IN A 192.0.2.7"],
        ["192.0.2.7"],
        60,
    ),
    "aliases, in the wrong order and in any case": (
        A_QUERY,
        [
            "C.example.com 50 IN A 192.0.2.7",
            "b.Example.Net 40 IN CNAME c.example.COM.",
            "WWW.example.org 60 IN CNAME B.example.net.",
        ],
        ["192.0.2.7"],
        40,
    ),
    "an alias that no host could have as its name": (
        A_QUERY,
        ["www.example.org 60 IN CNAME _x.example.net.", "_x.example.net 60 IN A 192.0.2.7"],
        ["192.0.2.7"],
        60,
    ),
    "an alias beside addresses, which come first": (
        A_QUERY,
        [
            "www.example.org 60 IN CNAME b.example.net.",
            "www.example.org 9 IN A 192.0.2.7",
            "b.example.net 5 IN A 192.0.2.8",
        ],
        ["192.0.2.7"],
        9,
    ),
    "addresses of another name": (
        A_QUERY,
        ["evil.example 1 IN A 192.0.2.66", "www.example.org 60 IN A 192.0.2.7", "example.org 1 IN A 192.0.2.66"],
        ["192.0.2.7"],
        60,
    ),
    "records of other types": (
        A_QUERY,
        ["www.example.org 1 IN AAAA 2001:db8::7", "www.example.org 1 IN TXT x", "www.example.org 60 IN A 192.0.2.7"],
        ["192.0.2.7"],
        60,
    ),
    "a TTL of zero": (A_QUERY, ["www.example.org 0 IN A 192.0.2.7"], ["192.0.2.7"], 0),
    "the longest TTL": (A_QUERY, ["www.example.org 2147483647 IN A 192.0.2.7"], ["192.0.2.7"], 2**31 - 1),
}


@pytest.mark.parametrize(("sent", "answers", "expected", "ttl"), FOUND.values(), ids=FOUND)
def test_the_addresses_at_the_end_of_the_chain_are_found(sent, answers, expected, ttl):
    assert read_response(respond(sent, answers), sent) == Resolution(addresses(*expected), ttl)


NOT_FOUND = {
    "no data": (dns.rcode.NOERROR, [], [SOA.format(ttl=90, minimum=30)], NoData(30)),
    "no data, and a record that expires before": (
        dns.rcode.NOERROR,
        [],
        [SOA.format(ttl=20, minimum=30)],
        NoData(20),
    ),
    "no data, and no word about how long": (dns.rcode.NOERROR, [], [], NoData(0)),
    "a referral": (dns.rcode.NOERROR, [], ["org 60 IN NS a.example."], NoData(0)),
    "an alias to nothing": (dns.rcode.NOERROR, ["www.example.org 60 IN CNAME b.example."], [], NoData(0)),
    "the other family only": (dns.rcode.NOERROR, ["www.example.org 60 IN AAAA 2001:db8::7"], [], NoData(0)),
    "a record of another class": (dns.rcode.NOERROR, [], ["www.example.org 60 CH TXT x"], NoData(0)),
    "no such name": (dns.rcode.NXDOMAIN, [], [SOA.format(ttl=90, minimum=30)], NoSuchName(30)),
    "no such name, and no word about how long": (dns.rcode.NXDOMAIN, [], [], NoSuchName(0)),
    "an alias to no such name": (
        dns.rcode.NXDOMAIN,
        ["www.example.org 60 IN CNAME b.example."],
        [SOA.format(ttl=90, minimum=3)],
        NoSuchName(3),
    ),
    "SERVFAIL": (dns.rcode.SERVFAIL, [], [], ServerFailure(2)),
    "REFUSED": (dns.rcode.REFUSED, ["www.example.org 60 IN A 192.0.2.7"], [], ServerFailure(5)),
    "BADVERS, whose lower bits mean no error": (dns.rcode.BADVERS, [], [], ServerFailure(16)),
    "BADCOOKIE": (dns.rcode.BADCOOKIE, [], [], ServerFailure(23)),
}


@pytest.mark.parametrize(("rcode", "answers", "authority", "expected"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_is_not_found_is_told_apart(rcode, answers, authority, expected):
    assert read_response(respond(A_QUERY, answers, authority, rcode), A_QUERY) == expected


# Answers by hand.


def record(owner: bytes, kind: int, data: bytes, *, ttl: int = 60, group: int = 1, length: int | None = None) -> bytes:
    return owner + struct.pack("!HHLH", kind, group, ttl, len(data) if length is None else length) + data


def response(
    *answers: bytes,
    flags: int = NOERROR_FLAGS,
    counts: tuple[int, ...] | None = None,
    ident: int = A_QUERY.id,
    rest: bytes = b"",
) -> bytes:
    """Write an answer to A_QUERY whose parts need not fit together."""
    header = struct.pack("!6H", ident, flags, *(counts or (1, len(answers), 0, 0)))
    return header + A_QUERY.question + b"".join(answers) + rest


THE_NAME = b"\xc0\x0c"
ADDRESS = record(THE_NAME, 1, b"\xc0\0\2\7")
BEHIND = len(response())  # where the first record starts
FOUND_BY_HAND = Resolution(addresses("192.0.2.7"), 60)


def test_the_control_by_hand_is_found():
    assert read_response(response(ADDRESS), A_QUERY) == FOUND_BY_HAND


GOOD_BY_HAND = {
    "a name without compression": response(record(wire_name(b"www", b"EXAMPLE", b"org"), 1, b"\xc0\0\2\7")),
    "a name that is compressed at its end": response(record(b"\3www\xc0\x10", 1, b"\xc0\0\2\7")),
    "a pointer to a pointer": response(
        record(THE_NAME, 16, b"\0"), record(b"\xc0" + bytes([BEHIND]), 1, b"\xc0\0\2\7")
    ),
    "the same address twice": response(ADDRESS, ADDRESS),
    "the same alias twice": response(
        *[record(THE_NAME, 5, wire_name(b"b"))] * 2, record(wire_name(b"b"), 1, b"\xc0\0\2\7")
    ),
    "an address of class CHAOS beside it": response(record(THE_NAME, 1, b"\x7f\0\0\1", group=3), ADDRESS),
    "an alias of class CHAOS beside it": response(record(THE_NAME, 5, b"?", group=3), ADDRESS),
    "a malformed record of no interest": response(record(THE_NAME, 15, b"\xff\xff\xff"), ADDRESS),
    "an OPT record": response(ADDRESS, counts=(1, 1, 0, 1), rest=OPT),
    "authenticated data, no recursion": response(ADDRESS, flags=0x8520),
}


@pytest.mark.parametrize("message", GOOD_BY_HAND.values(), ids=GOOD_BY_HAND)
def test_what_servers_may_write_in_several_ways_is_read(message):
    assert read_response(message, A_QUERY) == FOUND_BY_HAND


def test_a_ttl_that_would_be_negative_is_zero():
    message = response(record(THE_NAME, 1, b"\xc0\0\2\7", ttl=0x8000_0000))
    assert read_response(message, A_QUERY) == Resolution(addresses("192.0.2.7"), 0)


@pytest.mark.parametrize("flags", [0x8380, 0x8383, 0x8382], ids=["no error", "no such name", "SERVFAIL"])
def test_a_truncated_answer_is_not_looked_into(flags):
    assert read_response(response(ADDRESS, flags=flags, rest=b"cut"), A_QUERY) == Truncated()


def other_question(name: bytes = wire_name(b"wWw", b"exAmple", b"org"), **fields) -> bytes:
    return wire_query(
        name, **{"ident": A_QUERY.id, "flags": NOERROR_FLAGS, "counts": (1, 1, 0, 0), **fields}, rest=ADDRESS
    )


FORGED = {
    "another identifier": response(ADDRESS, ident=A_QUERY.id ^ 1),
    "a query": response(ADDRESS, flags=0x0100),
    "an answer to an update": response(ADDRESS, flags=0xA980),
    "another name": other_question(wire_name(b"evil", b"example")),
    "another case": other_question(wire_name(b"www", b"example", b"org")),
    "another type": other_question(qtype=28),
    "another class": other_question(qclass=3),
    "the question by a pointer": other_question(b"\3wWw\xc0\x10"),
    "no question": response(ADDRESS, counts=(0, 1, 0, 0)),
    "two questions": response(A_QUERY.question, ADDRESS, counts=(2, 1, 0, 0)),
    "nothing": b"",
    "half a header": response()[:11],
    "a header alone": response()[:12],
}


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED)
def test_what_does_not_repeat_the_question_is_refused(message):
    assert_refused(message)


def assert_refused(message: bytes) -> str:
    refusal = read_response(message, A_QUERY)
    assert isinstance(refusal, Refuse)
    assert refusal.fault is Fault.MALFORMED_DNS
    assert refusal.detail.isascii()
    assert refusal.detail.isprintable()
    return refusal.detail


def pointer(position: int) -> bytes:
    return struct.pack("!H", 0xC000 | position)


def alias(owner: bytes, target: bytes) -> bytes:
    return record(wire_name(owner), 5, wire_name(target))


def chain(length: int) -> list[bytes]:
    names = [b"n%d" % index for index in range(length)]
    first = record(THE_NAME, 5, wire_name(names[0]))
    return [first, *(alias(a, b) for a, b in pairwise(names)), record(wire_name(names[-1]), 1, b"\xc0\0\2\7")]


MALFORMED = {
    "a pointer to itself": response(record(pointer(BEHIND), 1, b"\xc0\0\2\7")),
    "a pointer to itself behind a label": response(record(b"\1a" + pointer(BEHIND), 1, b"\xc0\0\2\7")),
    "a pointer to itself, past a label": response(record(b"\1a" + pointer(BEHIND + 2), 1, b"\xc0\0\2\7")),
    "a pointer forward": response(
        record(pointer(BEHIND + len(ADDRESS)), 1, b"\xc0\0\2\7"),
        record(wire_name(b"www", b"example", b"org"), 16, b"\0"),
    ),
    "two pointers at each other": response(
        record(THE_NAME, 16, pointer(BEHIND + 14)), record(pointer(BEHIND + 12), 1, b"\xc0\0\2\7")
    ),
    "a pointer into the header": response(record(pointer(4), 1, b"\xc0\0\2\7")),
    "a pointer beyond the end": response(record(pointer(0x3FFF), 1, b"\xc0\0\2\7")),
    "half a pointer": response(b"\xc0", counts=(1, 1, 0, 0)),
    "a target that points at itself": response(record(THE_NAME, 5, pointer(BEHIND + 12))),
    "a label of type 01": response(record(b"\x41" + b"a" * 65 + ROOT, 1, b"\xc0\0\2\7")),
    "a label of type 10": response(record(b"\x81" + b"a" * 129 + ROOT, 1, b"\xc0\0\2\7")),
    "a name of 256": response(record(wire_name(*[b"a" * 63] * 3, b"a" * 62), 1, b"\xc0\0\2\7")),
    "a name of more than 255 by a pointer": response(
        record(wire_name(*[b"a" * 63] * 3, b"a" * 60)[:-1] + THE_NAME, 1, b"\xc0\0\2\7")
    ),
    "an address of three bytes": response(record(THE_NAME, 1, b"\xc0\0\2")),
    "an address of sixteen bytes for IPv4": response(record(THE_NAME, 1, bytes(16))),
    "an address of no bytes": response(record(THE_NAME, 1, b"")),
    "data beyond the end": response(record(THE_NAME, 1, b"\xc0\0\2\7", length=5)),
    "a record that is not there": response(ADDRESS, counts=(1, 2, 0, 0)),
    "an authority that is not there": response(ADDRESS, counts=(1, 1, 1, 0)),
    "an additional record that is not there": response(ADDRESS, counts=(1, 1, 0, 1)),
    "a record that is not announced": response(ADDRESS, counts=(1, 0, 0, 0)),
    "a byte behind the end": response(ADDRESS, rest=b"\0"),
    "an alias that is shorter than its record": response(record(THE_NAME, 5, wire_name(b"b") + b"\0")),
    "an alias that is longer than its record": response(record(THE_NAME, 5, wire_name(b"b"), length=2), rest=ADDRESS),
    "an alias of no bytes": response(record(THE_NAME, 5, b""), ADDRESS),
    "an alias for itself": response(record(THE_NAME, 5, THE_NAME)),
    "aliases in a circle": response(record(THE_NAME, 5, wire_name(b"a")), alias(b"a", b"b"), alias(b"b", b"a")),
    "two aliases for one name": response(
        record(THE_NAME, 5, wire_name(b"a")), record(THE_NAME, 5, wire_name(b"b")), record(wire_name(b"a"), 1, bytes(4))
    ),
    "a long chain of aliases": response(*chain(MAX_ALIASES + 1)),
    "records without number": response(counts=(1, 65535, 65535, 65535)),
    "records without number and without size": response(*[b"\0" * 11] * 600),
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_refused(message):
    assert_refused(message)


def test_the_longest_chain_of_aliases_is_followed():
    assert read_response(response(*chain(MAX_ALIASES)), A_QUERY) == FOUND_BY_HAND


def test_a_long_chain_of_pointers_is_refused_although_each_leads_backwards():
    first = BEHIND + 2 + 10
    pointers = [pointer(12), *(pointer(first + 2 * index) for index in range(50))]
    hops = record(THE_NAME, 16, b"".join(pointers))
    assert read_response(response(hops, record(pointer(first + 2 * 20), 1, b"\xc0\0\2\7")), A_QUERY) == FOUND_BY_HAND
    assert "pointer" in assert_refused(response(hops, record(pointer(first + 2 * 40), 1, b"\xc0\0\2\7")))


def test_there_may_be_so_many_records_and_not_one_more():
    noise = record(wire_name(b"noise"), 1, bytes(4))
    rest = noise * 100 + OPT
    most = response(*[ADDRESS] * (MAX_RECORDS - 101), counts=(1, MAX_RECORDS - 101, 100, 1), rest=rest)
    assert read_response(most, A_QUERY) == FOUND_BY_HAND
    more = response(*[ADDRESS] * (MAX_RECORDS - 100), counts=(1, MAX_RECORDS - 100, 100, 1), rest=rest)
    assert str(MAX_RECORDS) in assert_refused(more)


@pytest.mark.parametrize("size", range(len(response(ADDRESS, counts=(1, 1, 0, 1), rest=OPT))))
def test_no_answer_can_lose_bytes_at_its_end(size):
    assert_refused(response(ADDRESS, counts=(1, 1, 0, 1), rest=OPT)[:size])


def test_a_start_of_authority_that_is_too_short_says_nothing():
    soa = record(THE_NAME, 6, b"\0" * 21)
    assert read_response(response(soa, counts=(1, 0, 1, 0)), A_QUERY) == NoData(0)


# Against dnspython.

hosts = st.sampled_from(["www.example.org", "a.example", "b.example", "c.example", "_d.example", "example.org"])
ttls = st.integers(0, 2**31 - 1)
ipv4 = st.lists(st.ip_addresses(v=4).map(str), min_size=1, max_size=5, unique=True).map(", ".join)
ipv6 = st.lists(st.ip_addresses(v=6).map(str), min_size=1, max_size=5, unique=True).map(", ".join)


@st.composite
def answer_sections(draw: st.DrawFn) -> list[str]:
    """Draw the records of an answer: at most one set of each type for a name, aliases that may lead in circles."""
    lines = []
    for host in draw(st.permutations(["www.example.org", "a.example", "b.example", "c.example", "_d.example"])):
        for kind, data in (("CNAME", hosts.map("{}.".format)), ("A", ipv4), ("AAAA", ipv6), ("TXT", st.just("x"))):
            if draw(st.integers(0, 2)) == 0:
                lines.append(f"{host} {draw(ttls)} IN {kind} {draw(data)}")
    return lines


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    authority = draw(st.sampled_from([[], [SOA.format(ttl=90, minimum=30)], ["org 60 IN NS a.example."]]))
    rcode = draw(st.sampled_from([dns.rcode.NOERROR] * 4 + [dns.rcode.NXDOMAIN, dns.rcode.SERVFAIL]))
    return respond(draw(st.sampled_from([A_QUERY, AAAA_QUERY])), draw(answer_sections()), authority, rcode)


def sent_for(message: bytes) -> SentQuery:
    return A_QUERY if A_QUERY.has_id_of(message) else AAAA_QUERY


@given(responses())
def test_every_answer_means_what_it_means_to_dnspython(message):
    reading = read_response(message, sent_for(message))
    parsed = dns.message.from_wire(message)
    assert isinstance(parsed, dns.message.QueryMessage)
    if parsed.rcode() == dns.rcode.SERVFAIL:
        assert reading == ServerFailure(dns.rcode.SERVFAIL)
        return
    if parsed.rcode() == dns.rcode.NXDOMAIN:
        assert isinstance(reading, NoSuchName)
        return
    try:
        result = parsed.resolve_chaining()
    except dns.message.ChainTooLong:
        assert isinstance(reading, Refuse)
        return
    if result.answer is None:
        assert isinstance(reading, NoData)
    else:
        assert reading == Resolution(addresses(*(item.address for item in result.answer)), result.minimum_ttl)


def _agrees_with_dnspython(message: bytes, sent: SentQuery) -> None:
    """Check that addresses that were found, dnspython finds as well, if it can read the message at all."""
    reading = read_response(message, sent)
    if not isinstance(reading, Resolution):
        return
    assert len(set(reading.addresses)) == len(reading.addresses) > 0
    try:
        parsed = read_by_dnspython(message)
        assert isinstance(parsed, dns.message.QueryMessage)
        answer = parsed.resolve_chaining().answer
    except (dns.exception.DNSException, ValueError):
        return  # it reads every record of every type, also those that the chain does not touch
    assert answer is not None
    assert set(reading.addresses) == set(addresses(*(item.address for item in answer)))


@given(st.binary(max_size=600))
def test_arbitrary_bytes_never_raise(message):
    _agrees_with_dnspython(message, A_QUERY)


@given(st.binary(max_size=300), st.tuples(*[st.integers(0, 3)] * 3), st.sampled_from([0x8180, 0x8183, 0x8580]))
def test_arbitrary_records_behind_a_good_question_never_raise(records, counts, flags):
    _agrees_with_dnspython(response(flags=flags, counts=(1, *counts), rest=records), A_QUERY)


@given(responses(), st.data())
def test_mutations_never_raise(message, data):
    sent = sent_for(message)
    mutated = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(mutated)))
        taken = data.draw(st.integers(0, 3))
        mutated[position : position + taken] = data.draw(st.binary(max_size=3))
    _agrees_with_dnspython(bytes(mutated), sent)


def test_extended_errors_come_from_edns_alone():
    message = response(counts=(1, 0, 0, 1), rest=edns_record(ttl=0x0100_0000))
    assert read_response(message, A_QUERY) == ServerFailure(16)
