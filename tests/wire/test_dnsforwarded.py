"""Records that are written anew, beside what dnspython reads in the answer that they come from."""

import struct

import dns.message
import dns.rdatatype
import dns.rrset
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.dns.format import HEADER
from belljar.wire.dns.forwarded import ForwardedRecords, read_records
from belljar.wire.dns.records import read_sections
from belljar.wire.dns.response import SentQuery, build_query
from belljar.wire.outcome import Refuse

DATA = {
    "MX": "10 mail.www.example.org.",
    "NS": "ns.example.org.",
    "SOA": "www.example.org. mail.www.example.org. 1 2 3 4 5",
    "SRV": "1 2 3 www.example.org.",
    "RP": "admin.example.org. text.www.example.org.",
    "AFSDB": "1 www.example.org.",
    "TXT": '"some text" "more"',
    "TYPE65280": r"\# 3 c00c00",
}


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, SentQuery]:
    """Draw an answer that dnspython has compressed, with an alias or without, and more records than were asked for."""
    kind = draw(st.sampled_from(list(DATA)))
    sent = build_query("www.example.org", dns.rdatatype.from_text(kind), 0x1234)
    response = dns.message.make_response(dns.message.from_wire(sent.message))
    owner = draw(st.sampled_from(["www.example.org.", "alias.example.org."]))
    if owner != "www.example.org.":
        response.answer.append(dns.rrset.from_text("www.example.org.", 60, "IN", "CNAME", owner))
    for other in draw(st.permutations([kind, *draw(st.sets(st.sampled_from(["A", *DATA]), max_size=3))])):
        data = DATA.get(other, "192.0.2.7")
        response.answer.append(dns.rrset.from_text(owner, draw(st.integers(0, 2**31 - 1)), "IN", other, data))
    return response.to_wire(), sent


def rebuilt(sent: SentQuery, found: ForwardedRecords) -> bytes:
    return HEADER.pack(sent.id, 0x8180, 1, len(found.records), 0, 0) + sent.question + b"".join(found.records)


@given(answers())
def test_what_was_asked_for_means_to_dnspython_what_it_meant_before(drawn):
    message, sent = drawn
    found = read_records(message, sent)
    assert isinstance(found, ForwardedRecords)
    before, after = dns.message.from_wire(message), dns.message.from_wire(rebuilt(sent, found))
    assert isinstance(before, dns.message.QueryMessage)
    assert isinstance(after, dns.message.QueryMessage)
    assert after.resolve_chaining().answer == before.resolve_chaining().answer
    assert {rrset.rdtype for rrset in after.answer} <= {sent.kind, dns.rdatatype.CNAME}


@given(answers(), st.data())
def test_mutations_never_raise_and_what_is_found_holds_together(drawn, data):
    message, sent = drawn
    mutated = bytearray(message)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(mutated)))
        mutated[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    found = read_records(bytes(mutated), sent)
    if isinstance(found, ForwardedRecords):
        counts = len(found.records), 0, 0
        [records, _, _] = read_sections(rebuilt(sent, found), HEADER.size + len(sent.question), counts)
        assert {record.kind for record in records} <= {sent.kind, dns.rdatatype.CNAME}


@given(st.binary(max_size=600))
def test_arbitrary_bytes_never_raise(message):
    read_records(message, build_query("www.example.org", dns.rdatatype.MX, 0x1234))


def test_a_record_that_is_too_large_without_compression_is_refused():
    sent = build_query(".".join(["a" * 60] * 4), dns.rdatatype.SOA, 0x1234)
    data = b"\xc0\x0c" * 2 + bytes(65100)  # two names and a lot of numbers
    record = b"\xc0\x0c" + struct.pack("!2HLH", dns.rdatatype.SOA, 1, 60, len(data)) + data
    message = HEADER.pack(sent.id, 0x8180, 1, 1, 0, 0) + sent.question + record
    assert len(message) <= 65535
    assert isinstance(read_records(message, sent), Refuse)
