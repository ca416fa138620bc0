from ipaddress import IPv4Address, ip_address

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.dns.answer import (
    MAX_EXTRA_TEXT,
    DnsAnswer,
    ExtendedError,
    address_answer,
    no_data_answer,
    pointer_answer,
    refusal_answer,
)
from belljar.wire.dns.format import InfoCode, Rcode
from belljar.wire.dns.question import RefusedQuery, parse_query
from tests.wire.dnsmessages import (
    edns_record,
    found,
    labels_of,
    mutations,
    queries,
    wire_name,
    wire_query,
)

DENIED = ExtendedError(InfoCode.BLOCKED, "not_allowed_domain: example.org is not in the policy")
LONGEST_NAME = wire_name(*[b"a" * 63] * 3, b"a" * 61)


def asked(name: str = "example.org", rdtype: str = "A", payload: int | None = None) -> dns.message.QueryMessage:
    query = dns.message.make_query(name, rdtype)
    if payload is not None:
        query.use_edns(0, payload=payload)
    return query


def answered(query: dns.message.Message, message: bytes) -> dns.message.Message:
    """Read an answer as a client does, and check what holds for every answer."""
    answer = dns.message.from_wire(message, raise_on_truncation=False)
    assert query.is_response(answer)
    assert labels_of(answer) == labels_of(query)
    assert not answer.flags & (dns.flags.AA | dns.flags.AD)
    assert answer.flags & dns.flags.RA
    assert answer.flags & (dns.flags.RD | dns.flags.CD) == query.flags & (dns.flags.RD | dns.flags.CD)
    assert (answer.edns >= 0) == (query.edns >= 0)
    assert answer.ednsflags & dns.flags.DO == query.ednsflags & dns.flags.DO
    return answer


def addresses(count: int) -> list[IPv4Address]:
    return [IPv4Address("198.18.0.0") + number for number in range(count)]


def errors(answer: dns.message.Message) -> list[tuple[int, str | None]]:
    return [(option.code, option.text) for option in answer.extended_errors()]


@pytest.mark.parametrize(
    ("rdtype", "texts"),
    [
        pytest.param("A", ["198.18.0.7"], id="one A"),
        pytest.param("A", ["198.18.0.7", "198.18.0.8"], id="two A"),
        pytest.param("AAAA", ["fd00::7"], id="one AAAA"),
        pytest.param("AAAA", ["fd00::7", "2001:db8::1"], id="two AAAA"),
    ],
)
@pytest.mark.parametrize("payload", [None, 1232], ids=["plain", "EDNS"])
def test_addresses_are_told_with_their_time_to_live(rdtype, texts, payload):
    query = asked("eXaMpLe.org", rdtype, payload)
    answer = address_answer(found(query.to_wire()), [ip_address(text) for text in texts], ttl=60)
    for message in (answer.datagram(), answer.message()):
        read = answered(query, message)
        [rrset] = read.answer
        assert read.rcode() == dns.rcode.NOERROR
        assert (rrset.name, rrset.ttl) == (query.question[0].name, 60)
        assert rrset.rdtype == dns.rdatatype.from_text(rdtype)
        assert sorted(record.address for record in rrset) == sorted(texts)
        assert read.authority == []


def test_a_pointer_tells_the_name():
    query = asked("7.0.18.198.in-addr.arpa", "PTR")
    read = answered(query, pointer_answer(found(query.to_wire()), "api.example.org", ttl=60).datagram())
    [rrset] = read.answer
    assert (rrset.name, rrset.ttl) == (query.question[0].name, 60)
    assert [record.target.to_text() for record in rrset] == ["api.example.org."]


@pytest.mark.parametrize("name", ["example.org", ".", "_http._tcp.example.org"])
def test_no_data_can_be_cached(name):
    query = asked(name, "HTTPS")
    read = answered(query, no_data_answer(found(query.to_wire()), ttl=60).datagram())
    assert (read.rcode(), read.answer) == (dns.rcode.NOERROR, [])
    [rrset] = read.authority
    assert query.question[0].name.is_subdomain(rrset.name)
    [soa] = rrset
    assert (rrset.ttl, soa.minimum) == (60, 60)


@pytest.mark.parametrize("rcode", [Rcode.REFUSED, Rcode.NXDOMAIN, Rcode.SERVFAIL, Rcode.FORMERR, Rcode.NOTIMP])
def test_an_error_says_why_to_those_who_speak_edns(rcode):
    for query, expected in ((asked(), []), (asked(payload=1232), [(DENIED.code, DENIED.text)])):
        read = answered(query, DnsAnswer(found(query.to_wire()), rcode, error=DENIED).datagram())
        assert read.rcode() == rcode
        assert read.answer == read.authority == []
        assert errors(read) == expected


@pytest.mark.parametrize("code", InfoCode)
def test_every_code_can_go_without_a_text(code):
    query = asked(payload=1232)
    read = answered(query, DnsAnswer(found(query.to_wire()), Rcode.REFUSED, error=ExtendedError(code)).message())
    assert errors(read) == [(code, None)]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        pytest.param("x" * 1000, "x" * MAX_EXTRA_TEXT, id="one byte each"),
        pytest.param("é" * 1000, "é" * 100, id="two bytes each"),
        pytest.param("x" + "é" * 1000, "x" + "é" * 99, id="cut within a character"),
        pytest.param("€" * 1000, "€" * 66, id="three bytes each"),
        pytest.param("a\ud800b", "a?b", id="a lone surrogate"),
    ],
)
def test_a_long_text_is_cut_between_characters(text, sent):
    query = asked(payload=1232)
    error = ExtendedError(InfoCode.BLOCKED, text)
    read = answered(query, DnsAnswer(found(query.to_wire()), Rcode.REFUSED, error=error).datagram())
    assert errors(read) == [(15, sent)]


@pytest.mark.parametrize(
    ("payload", "most"),
    [
        pytest.param(None, (512 - 29) // 16, id="plain"),
        pytest.param(0, (512 - 29 - 11) // 16, id="EDNS 0 means 512"),
        pytest.param(511, (512 - 29 - 11) // 16, id="EDNS 511 means 512"),
        pytest.param(600, (600 - 29 - 11) // 16, id="EDNS 600"),
        pytest.param(1232, (1232 - 29 - 11) // 16, id="EDNS 1232"),
        pytest.param(4096, (1232 - 29 - 11) // 16, id="EDNS 4096 means 1232"),
    ],
)
def test_a_datagram_holds_what_the_client_can_take_or_asks_for_tcp(payload, most):
    query = asked(payload=payload)
    whole = answered(query, address_answer(found(query.to_wire()), addresses(most), 60).datagram())
    assert len(whole.answer[0]) == most
    assert not whole.flags & dns.flags.TC

    too_many = address_answer(found(query.to_wire()), addresses(most + 1), 60)
    truncated = answered(query, too_many.datagram())
    assert truncated.flags & dns.flags.TC
    assert truncated.answer == []

    over_tcp = answered(query, too_many.message())
    assert len(over_tcp.answer[0]) == most + 1
    assert not over_tcp.flags & dns.flags.TC


def test_a_message_over_tcp_is_never_larger_than_its_length_can_say():
    query = asked()
    most = (65535 - 29) // 16
    assert len(answered(query, address_answer(found(query.to_wire()), addresses(most), 60).message()).answer[0]) == most
    truncated = answered(query, address_answer(found(query.to_wire()), addresses(most + 1), 60).message())
    assert truncated.flags & dns.flags.TC


def test_the_text_of_an_error_gives_way_to_the_records():
    message = wire_query(LONGEST_NAME, counts=(1, 0, 0, 1), rest=edns_record(payload=512))
    error = ExtendedError(InfoCode.FILTERED, "x" * MAX_EXTRA_TEXT)
    answer = no_data_answer(found(message), 60, error)
    datagram = answer.datagram()
    assert len(datagram) == 512
    read = dns.message.from_wire(datagram)
    [(code, text)] = errors(read)
    assert (code, len(read.authority)) == (InfoCode.FILTERED, 1)
    assert text
    assert len(text) < MAX_EXTRA_TEXT
    assert errors(dns.message.from_wire(answer.message())) == [(InfoCode.FILTERED, error.text)]


def test_a_truncated_answer_keeps_its_error():
    query = asked(payload=512)
    answer = address_answer(found(query.to_wire()), addresses(100), 60)._replace(error=DENIED)
    read = answered(query, answer.datagram())
    assert read.flags & dns.flags.TC
    assert errors(read) == [(DENIED.code, DENIED.text)]


def refused(message: bytes) -> RefusedQuery:
    refusal = parse_query(message)
    assert isinstance(refusal, RefusedQuery)
    return refusal


@pytest.mark.parametrize(
    ("message", "rcode"),
    [
        pytest.param(wire_query(b"\xc0\x0c"), dns.rcode.FORMERR, id="a pointer loop"),
        pytest.param(wire_query(rest=b"\0"), dns.rcode.FORMERR, id="bytes behind the end"),
        pytest.param(wire_query(flags=0x1100), dns.rcode.NOTIMP, id="a status request"),
        pytest.param(wire_query(flags=0x0000, counts=(2, 0, 0, 0)), dns.rcode.FORMERR, id="two questions"),
    ],
)
def test_what_was_not_understood_is_answered_with_a_header_alone(message, rcode):
    answer = refusal_answer(message, refused(message))
    assert answer is not None
    assert len(answer) == 12
    read = dns.message.from_wire(answer)
    assert (read.id, read.rcode()) == (0x1234, rcode)
    assert read.flags & dns.flags.QR
    assert answer[2] & 0x79 == message[2] & 0x79  # the operation and RD


@pytest.mark.parametrize("message", [b"", b"\0" * 11, wire_query(flags=0x8180), wire_query(flags=0xFFFF)])
def test_what_is_no_query_is_not_answered(message):
    assert refusal_answer(message, refused(message)) is None


def test_a_later_edns_version_is_answered_with_ours():
    query = asked()
    query.use_edns(1)
    message = query.to_wire()
    read = answered(query, refusal_answer(message, refused(message)) or b"")
    assert (read.rcode(), read.edns) == (dns.rcode.BADVERS, 0)


@pytest.mark.parametrize("name", ["version.bind", "hostname.bind", "id.server", "version.server"])
@pytest.mark.parametrize("payload", [None, 1232], ids=["plain", "EDNS"])
def test_chaos_learns_nothing(name, payload):
    query = dns.message.make_query(name, "TXT", "CH")
    if payload:
        query.use_edns(0, payload=payload)
    message = query.to_wire()
    read = answered(query, refusal_answer(message, refused(message)) or b"")
    assert read.rcode() == dns.rcode.REFUSED
    assert read.answer == read.authority == read.additional == []
    expected = [(InfoCode.NOT_SUPPORTED, "unsupported_dns: asks in a class other than IN")] if payload else []
    assert errors(read) == expected


texts = st.text(max_size=300)
answers_to = st.one_of(
    st.lists(st.ip_addresses(v=4), max_size=90).map(lambda them: lambda query: address_answer(query, them, 60)),
    st.lists(st.ip_addresses(v=6), max_size=60).map(lambda them: lambda query: address_answer(query, them, 60)),
    st.integers(0, 2**31 - 1).map(lambda ttl: lambda query: pointer_answer(query, "api.example.org", ttl)),
    texts.map(lambda text: lambda query: no_data_answer(query, 60, ExtendedError(InfoCode.OTHER, text))),
    texts.map(lambda text: lambda query: DnsAnswer(query, Rcode.REFUSED, error=ExtendedError(InfoCode.BLOCKED, text))),
)


@given(queries(), answers_to)
def test_every_answer_to_every_query_is_understood_and_fits(query, answer_to):
    answer: DnsAnswer = answer_to(found(query.to_wire()))
    limit = max(512, min(query.payload, 1232)) if query.edns >= 0 else 512
    datagram = answer.datagram()
    read = answered(query, datagram)
    assert len(datagram) <= limit
    assert int(read.rcode()) == answer.rcode
    if read.flags & dns.flags.TC:
        assert len(answer.message()) > limit
        assert read.answer == read.authority == []
    assert not answered(query, answer.message()).flags & dns.flags.TC


@given(st.one_of(mutations(), st.binary(max_size=100)))
def test_every_refusal_can_be_answered(message):
    refusal = parse_query(message)
    if isinstance(refusal, RefusedQuery):
        answer = refusal_answer(message, refusal)
        if answer is not None:
            assert answer[:2] == message[:2]
            assert len(answer) <= 512
            dns.message.from_wire(answer)
