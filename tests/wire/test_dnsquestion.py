import struct

import dns.edns
import dns.flags
import dns.message
import dns.name
import dns.rdataclass
import dns.tsig
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.names import canonical_name
from belljar.wire.dns.format import Rcode
from belljar.wire.dns.question import MAX_QUERY, Edns, Query, RefusedQuery, parse_query
from belljar.wire.outcome import Fault
from tests.wire.dnsmessages import (
    OPT,
    ROOT,
    edns_record,
    found,
    host_labels,
    labels_of,
    mutations,
    queries,
    read_by_dnspython,
    wire_name,
    wire_query,
)


def test_everything_about_a_plain_query_is_read():
    message = wire_query(wire_name(b"API", b"eXample", b"org"), ident=7, flags=0x0110, qtype=28)
    assert parse_query(message) == Query(
        id=7,
        name="api.example.org",
        qtype=28,
        qclass=1,
        question=b"\3API\7eXample\3org\0\0\x1c\0\1",
        recursion_desired=True,
        checking_disabled=True,
        edns=None,
    )


LABELS = {
    "lower case": ([b"example", b"org"], "example.org"),
    "upper case": ([b"WWW", b"ExAmPlE", b"ORG"], "www.example.org"),
    "one label": ([b"localhost"], "localhost"),
    "an A-label": ([b"XN--bcher-kva", b"example"], "xn--bcher-kva.example"),
    "a label of 63": ([b"a" * 63, b"org"], "a" * 63 + ".org"),
    "the longest name": ([b"a" * 63] * 3 + [b"a" * 61], ".".join(["a" * 63] * 3 + ["a" * 61])),
    "a reverse name": ([b"7", b"2", b"0", b"192", b"in-addr", b"arpa"], "7.2.0.192.in-addr.arpa"),
    "the root": ([], None),
    "a service": ([b"_http", b"_tcp", b"example", b"org"], None),
    "a wildcard": ([b"*", b"example", b"org"], None),
    "a dot in the only label": ([b"evil.com"], None),
    "a dot in the first label": ([b"evil.com", b"ok", b"example"], None),
    "a dot at the end": ([b"ok", b"example."], None),
    "a dot alone": ([b"."], None),
    "NUL within a label": ([b"evil\0", b"ok", b"example"], None),
    "NUL at the end": ([b"ok", b"example\0"], None),
    "a line feed at the end": ([b"ok", b"example\n"], None),
    "a log line": ([b'ok\r\n{"forged": 1}', b"example"], None),
    "a terminal's escape": ([b"\x1b[2Jok", b"example"], None),
    "a space": ([b"ok ", b"example"], None),
    "an authority": ([b"ok:443@evil", b"example"], None),
    "a percent sign": ([b"evil%00", b"example"], None),
    "brackets": ([b"[ok]", b"example"], None),
    "a backslash": ([b"ok\\046evil", b"example"], None),
    "UTF-8": (["bücher".encode(), b"example"], None),
    "Latin-1": (["bücher".encode("latin-1"), b"example"], None),
    "an ideographic full stop": (["ok\u3002evil".encode(), b"example"], None),
    "the Kelvin sign": (["\u212aelvin".encode(), b"example"], None),
    "no A-label in spite of its looks": ([b"xn--", b"example"], None),
    "an A-label for ASCII": ([b"xn--abc-", b"example"], None),
    "a hyphen in front": ([b"-ok", b"example"], None),
    "an address": ([b"192", b"0", b"2", b"7"], None),
    "a short address": ([b"127", b"1"], None),
    "a packed address": ([b"2130706433"], None),
    "a hexadecimal address": ([b"0x7f000001"], None),
}


@pytest.mark.parametrize(("labels", "name"), LABELS.values(), ids=LABELS)
def test_a_name_is_canonical_or_not_a_host_name(labels, name):
    assert found(wire_query(wire_name(*labels))).name == name


@pytest.mark.parametrize(("labels", "name"), LABELS.values(), ids=LABELS)
def test_the_log_tells_every_name_exactly_and_safely(labels, name):
    query = found(wire_query(wire_name(*labels)))
    assert query.qname.isascii()
    assert query.qname.isprintable()
    assert dns.name.from_text(query.qname).labels[:-1] == tuple(labels)


@pytest.mark.parametrize(
    ("labels", "qname"),
    [
        pytest.param([], ".", id="the root"),
        pytest.param([b"_http", b"_tcp", b"Example", b"org"], "_http._tcp.Example.org", id="a service"),
        pytest.param([b"evil.com", b"ok\0"], r"evil\046com.ok\000", id="a dot and NUL"),
        pytest.param([b'\r\n"\x1b\xff\\'], r"\013\010\034\027\255\092", id="what a log or a terminal could trip over"),
    ],
)
def test_a_name_in_the_log_can_be_read(labels, qname):
    assert found(wire_query(wire_name(*labels))).qname == qname


def test_the_longest_qname_is_bounded():
    query = found(wire_query(wire_name(*[b"\0" * 63] * 3, b"\0" * 61)))
    assert len(query.qname) == 4 * 250 + 3


UNANSWERED = {
    "nothing": b"",
    "half a header": wire_query()[:11],
    "an answer": wire_query(flags=0x8180),
    "an answer to an update": wire_query(flags=0xA800),
    "an answer that is malformed": wire_query(flags=0x8180, counts=(9, 9, 9, 9)),
}


@pytest.mark.parametrize("message", UNANSWERED.values(), ids=UNANSWERED)
def test_what_is_no_query_at_all_gets_no_answer(message):
    refusal = parse_query(message)
    assert isinstance(refusal, RefusedQuery)
    assert (refusal.fault, refusal.rcode) == (Fault.MALFORMED_DNS, None)


MALFORMED = {
    "no question": wire_query(counts=(0, 0, 0, 0)),
    "a header alone": wire_query(counts=(0, 0, 0, 0))[:12],
    "two questions": wire_query(counts=(2, 0, 0, 0), rest=wire_name(b"evil") + b"\0\1\0\1"),
    "an answer's record": wire_query(counts=(1, 1, 0, 0), rest=b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4"),
    "an authority's record": wire_query(counts=(1, 0, 1, 0), rest=b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4\1\2\3\4"),
    "an answer's record that is not there": wire_query(counts=(1, 1, 0, 0)),
    "an authority's record that is not there": wire_query(counts=(1, 0, 1, 0)),
    "a pointer to itself": wire_query(b"\xc0\x0c"),
    "a pointer loop behind a label": wire_query(b"\3www\xc0\x0c"),
    "a pointer into the header": wire_query(b"\3www\xc0\x00"),
    "a pointer forward": wire_query(b"\3www\xc0\x16"),
    "a pointer beyond the end": wire_query(b"\3www\xff\xff"),
    "a label of type 01": wire_query(b"\x41" + b"a" * 65 + ROOT),
    "a label of type 10": wire_query(b"\x81" + b"a" * 129 + ROOT),
    "a label of 64": wire_query(wire_name(b"a" * 64)),
    "a name of 256": wire_query(wire_name(*[b"a" * 63] * 3, b"a" * 62)),
    "a name without end": wire_query(b"\1a" * 2000),
    "a name that ends the message": wire_query(b"\7example")[:20],
    "a byte behind the question": wire_query(rest=b"\0"),
    "an OPT record that is not announced": wire_query(rest=OPT),
    "an OPT record that is not there": wire_query(counts=(1, 0, 0, 1)),
    "half an OPT record": wire_query(counts=(1, 0, 0, 1), rest=OPT[:-1]),
    "a byte behind the OPT record": wire_query(counts=(1, 0, 0, 1), rest=OPT + b"\0"),
    "an option behind the OPT record": wire_query(counts=(1, 0, 0, 1), rest=OPT + b"\0\n\0\0"),
    "options longer than the message": wire_query(counts=(1, 0, 0, 1), rest=edns_record(length=4)),
    "half an option": wire_query(counts=(1, 0, 0, 1), rest=edns_record(data=b"\0\n\0")),
    "an option longer than its record": wire_query(counts=(1, 0, 0, 1), rest=edns_record(data=b"\0\n\0\5abcd")),
    "a byte behind the options": wire_query(counts=(1, 0, 0, 1), rest=edns_record(data=b"\0\n\0\1a\0")),
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED)
def test_what_is_malformed_is_refused_as_such(message):
    refusal = parse_query(message)
    assert isinstance(refusal, RefusedQuery)
    assert (refusal.fault, refusal.rcode, refusal.query) == (Fault.MALFORMED_DNS, Rcode.FORMERR, None)


def _signed_query() -> bytes:
    query = dns.message.make_query("example.org", "A")
    query.use_tsig(dns.tsig.Key("key.example", b"secret"))
    return query.to_wire()


UNSUPPORTED = {
    "an inverse query": (wire_query(flags=0x0800), Rcode.NOTIMP),
    "a status request": (wire_query(flags=0x1000), Rcode.NOTIMP),
    "a notification": (wire_query(flags=0x2000), Rcode.NOTIMP),
    "an update": (wire_query(flags=0x2800, counts=(1, 1, 1, 1)), Rcode.NOTIMP),
    "two OPT records": (wire_query(counts=(1, 0, 0, 2), rest=OPT + OPT), Rcode.FORMERR),
    "a named OPT record": (
        wire_query(counts=(1, 0, 0, 1), rest=edns_record(name=wire_name(b"a"))),
        Rcode.FORMERR,
    ),
    "an OPT record named by a pointer": (
        wire_query(counts=(1, 0, 0, 1), rest=edns_record(name=b"\xc0\x14")),
        Rcode.FORMERR,
    ),
    "an OPT record with another byte for the root": (
        wire_query(counts=(1, 0, 0, 1), rest=b"\1" + OPT[1:]),
        Rcode.FORMERR,
    ),
    "an address that comes along": (
        wire_query(counts=(1, 0, 0, 1), rest=ROOT + b"\0\1\0\1\0\0\0\1\0\4\1\2\3\4"),
        Rcode.FORMERR,
    ),
    "a signature": (_signed_query(), Rcode.FORMERR),
    "a later EDNS": (wire_query(counts=(1, 0, 0, 1), rest=edns_record(ttl=0x0001_0000)), Rcode.BADVERS),
    "a later EDNS with other options": (
        wire_query(counts=(1, 0, 0, 1), rest=edns_record(ttl=0x00FF_0000, data=b"?")),
        Rcode.BADVERS,
    ),
    "a version, from chaos": (wire_query(wire_name(b"version", b"bind"), qtype=16, qclass=3), Rcode.REFUSED),
    "any class": (wire_query(qclass=255), Rcode.REFUSED),
    "no class": (wire_query(qclass=0), Rcode.REFUSED),
    "the unicast bit of mDNS": (wire_query(qclass=0x8001), Rcode.REFUSED),
}


@pytest.mark.parametrize(("message", "rcode"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_is_not_done_here_is_refused_as_such(message, rcode):
    refusal = parse_query(message)
    assert isinstance(refusal, RefusedQuery)
    assert (refusal.fault, refusal.rcode) == (Fault.UNSUPPORTED_DNS, rcode)


def test_a_query_may_have_4096_bytes_and_not_one_more():
    fixed = len(wire_query()) + len(OPT) + 4

    def padded(size: int) -> bytes:
        padding = struct.pack("!2H", 12, size - fixed) + bytes(size - fixed)
        return wire_query(counts=(1, 0, 0, 1), rest=edns_record(data=padding))

    assert found(padded(MAX_QUERY)).name == "example.org"
    refusal = parse_query(padded(MAX_QUERY + 1))
    assert isinstance(refusal, RefusedQuery)
    assert (refusal.fault, refusal.rcode) == (Fault.TOO_LARGE, Rcode.FORMERR)


@pytest.mark.parametrize("flag", [0x0400, 0x0200, 0x0080, 0x0040, 0x0020, 0x000F])
def test_flags_that_mean_nothing_in_a_query_are_ignored(flag):
    assert found(wire_query(flags=flag)) == found(wire_query(flags=0))


def test_edns_is_read():
    message = wire_query(counts=(1, 0, 0, 1), rest=edns_record(payload=4096, ttl=0x0000_8000))
    assert found(message).edns == Edns(udp_payload=4096, dnssec_ok=True, version=0)


@given(queries())
def test_every_query_is_read_as_it_means(query):
    message = query.to_wire()
    read = found(message)
    assert (read.id, read.qtype, read.qclass) == (query.id, query.question[0].rdtype, dns.rdataclass.IN)
    assert read.recursion_desired == bool(query.flags & dns.flags.RD)
    assert read.checking_disabled == bool(query.flags & dns.flags.CD)
    assert message[12:].startswith(read.question)
    assert dns.name.from_text(read.qname).labels[:-1] == labels_of(query)
    if query.edns < 0:
        assert read.edns is None
    else:
        assert read.edns == Edns(query.payload, bool(query.ednsflags & dns.flags.DO), 0)


@given(host_labels)
def test_a_name_is_what_the_canonicaliser_makes_of_it(labels):
    labels = labels[:3]
    text = b".".join(labels).decode()
    try:
        expected = canonical_name(text)
    except ValueError:
        expected = None
    assert found(wire_query(wire_name(*labels))).name == expected


@given(st.lists(st.from_regex(rb"[xX][nN]--[a-zA-Z0-9-]{0,59}", fullmatch=True), min_size=1, max_size=3))
def test_labels_that_look_like_a_labels_never_raise(labels):
    name = found(wire_query(wire_name(*labels))).name
    assert name is None or name == b".".join(labels).decode().lower()


@given(queries())
def test_no_query_can_lose_bytes_at_its_end(query):
    message = query.to_wire()
    for size in range(len(message)):
        assert isinstance(parse_query(message[:size]), RefusedQuery)


def _agrees_with_dnspython(message: bytes) -> None:
    """Check that what is found, dnspython finds as well; it may find more, for it is more lenient."""
    read = parse_query(message)
    if isinstance(read, RefusedQuery):
        assert read.detail.isascii()
        assert read.detail.isprintable()
        return
    query = read_by_dnspython(message)
    [question] = query.question
    assert (query.id, question.rdtype, question.rdclass) == (read.id, read.qtype, 1)
    assert dns.name.from_text(read.qname).labels == question.name.labels
    assert (query.edns >= 0) == (read.edns is not None)
    if read.name is not None:
        assert tuple(read.name.encode().split(b".")) == tuple(label.lower() for label in labels_of(query))


@given(st.binary(max_size=600))
def test_arbitrary_bytes_never_raise(message):
    _agrees_with_dnspython(message)


@given(st.binary(max_size=300), st.integers(0, 1))
def test_arbitrary_bytes_behind_a_good_header_never_raise(body, additional):
    _agrees_with_dnspython(struct.pack("!6H", 1, 0x0100, 1, 0, 0, additional) + body)


@given(mutations())
def test_mutations_never_raise(message):
    _agrees_with_dnspython(message)
