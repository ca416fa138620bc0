"""What does a SOCKS client ask for, and what is it told if it cannot have that?"""

import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.names import SpellingError, parse_host
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore
from belljar.wire.socks5 import (
    NO_ACCEPTABLE_METHOD,
    NO_AUTHENTICATION,
    ConnectRequest,
    Greeting,
    RefusedSocks,
    Reply,
    Socks5Parser,
    reply,
)

Step = Greeting | ConnectRequest | RefusedSocks

GREETING = b"\x05\x01\x00"
GREETED = Greeting(frozenset({0}))
GENERAL_FAILURE = bytes.fromhex("05 01 00 01 00000000 0000")


def request(name: bytes, port: int = 443) -> bytes:
    """Write a request for a name."""
    return struct.pack(f"!5B{len(name)}sH", 5, 1, 0, 3, len(name), name, port)


def dialogue(pieces: Iterable[bytes]) -> tuple[list[Step], bytes]:
    """Play a server that answers each step at once; return the steps, and what came behind the last."""
    parser = Socks5Parser()
    steps: list[Step] = []
    for piece in pieces:
        step: Step | NeedMore = parser.feed(piece)
        while step is not NEED_MORE and step not in steps:
            steps.append(step)
            step = parser.feed(b"")
    return steps, parser.trailing


def steps_of(stream: bytes) -> list[Step]:
    """Return the steps, having checked that they are the same however the stream is cut."""
    steps, _ = dialogue([stream])
    assert dialogue(bytes([byte]) for byte in stream)[0] == steps
    return steps


def refused(stream: bytes) -> RefusedSocks:
    *before, last = steps_of(stream)
    assert before in ([], [GREETED])
    assert isinstance(last, RefusedSocks), last
    assert last.detail.isascii()
    assert last.detail.isprintable()
    return last


# --- the greeting

GREETINGS = {
    "curl": ("05 02 00 01", {0, 1}),
    "only-none": ("05 01 00", {0}),
    "none-last": ("05 03 02 01 00", {0, 1, 2}),
    "none-twice": ("05 02 00 00", {0}),
    "all": ("05 ff" + "".join(f"{method:02x}" for method in range(255)), set(range(255))),
}


@pytest.mark.parametrize(("stream", "methods"), GREETINGS.values(), ids=GREETINGS)
def test_a_greeting(stream, methods):
    assert steps_of(bytes.fromhex(stream)) == [Greeting(frozenset(methods))]


@pytest.mark.parametrize("stream", ["05 00", "05 01 02", "05 02 01 02", "05 01 ff"])
def test_a_client_that_insists_on_authentication(stream):
    answer = refused(bytes.fromhex(stream))
    assert (answer.fault, answer.answer) == (Fault.UNSUPPORTED_SOCKS, NO_ACCEPTABLE_METHOD)


def test_the_answers_to_a_greeting():
    assert bytes.fromhex("05 00") == NO_AUTHENTICATION
    assert bytes.fromhex("05 ff") == NO_ACCEPTABLE_METHOD


def test_socks_4_is_refused_in_its_own_words():
    for stream in (b"\x04", b"\x04\x01\x00\x50\x00\x00\x00\x01\x00a.example\x00"):
        answer = refused(stream)
        assert answer.fault is Fault.UNSUPPORTED_SOCKS
        assert "version 4" in answer.detail
        assert answer.answer == bytes.fromhex("00 5b 0000 00000000")  # request rejected or failed


@pytest.mark.parametrize("stream", [b"\x00", b"\x06", b"\x16\x03\x01", b"CONNECT a.example:443 HTTP/1.1\r\n"])
def test_what_does_not_speak_socks_gets_no_answer(stream):
    answer = refused(stream)
    assert (answer.fault, answer.answer) == (Fault.MALFORMED_SOCKS, b"")


# --- the request

REQUESTS = {
    "name": ("05 01 00 03 09 612e6578616d706c65 01bb", "a.example", 443),
    "name-case": ("05 01 00 03 09 412e4558414d504c45 0050", "a.example", 80),
    "name-with-dot": ("05 01 00 03 0a 612e6578616d706c652e 0001", "a.example", 1),
    "ipv4": ("05 01 00 01 c0000201 ffff", IPv4Address("192.0.2.1"), 65535),
    "ipv6": ("05 01 00 04 20010db8000000000000000000000001 0016", IPv6Address("2001:db8::1"), 22),
    "ipv4-as-name": ("05 01 00 03 09 3139322e302e322e31 01bb", IPv4Address("192.0.2.1"), 443),
    "ipv6-as-name": ("05 01 00 03 0d 5b323030313a6462383a3a315d 01bb", IPv6Address("2001:db8::1"), 443),
}


@pytest.mark.parametrize(("stream", "host", "port"), REQUESTS.values(), ids=REQUESTS)
def test_a_request(stream, host, port):
    assert steps_of(GREETING + bytes.fromhex(stream)) == [GREETED, ConnectRequest(host, port)]


def test_the_longest_name():
    name = b".".join([b"a" * 61] * 4) + b".aaaaa"
    assert len(name) == 253
    assert steps_of(GREETING + request(name)) == [GREETED, ConnectRequest(name.decode(), 443)]
    assert steps_of(GREETING + request(name + b".")) == [GREETED, ConnectRequest(name.decode(), 443)]


BAD_NAMES = {
    "empty": b"",
    "nul": b"evil\0.ok.example",
    "trailing-nul": b"ok.example\0",
    "line-end": b"ok.example\r\n",
    "space": b"ok.example ",
    "port": b"ok.example:443",
    "userinfo": b"ok.example@evil.example",
    "percent": b"evil%00.ok.example",
    "underscore": b"a_b.example",
    "utf-8": "bücher.example".encode(),
    "latin-1": b"b\xfccher.example",
    "ideographic-dot": "a\u3002example".encode(),
    "false-a-label": b"xn--99999999.example",
    "brackets-around-name": b"[ok.example]",
    "ipv6-without-brackets": b"2001:db8::1",
    "short-ipv4": b"127.1",
    "hexadecimal-ipv4": b"0x7f000001",
    "decimal-ipv4": b"2130706433",
    "octal-ipv4": b"0177.0.0.1",
    "ipv4-with-dot": b"127.0.0.1.",
    "empty-label": b"a..example",
    "too-long": b"a" * 63 + b".aaa" * 48,
}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_name_that_could_be_read_otherwise_is_refused(name):
    answer = refused(GREETING + request(name))
    assert (answer.fault, answer.answer) == (Fault.MALFORMED_SOCKS, GENERAL_FAILURE)


BAD_REQUESTS = {
    "version-4": (Fault.MALFORMED_SOCKS, Reply.GENERAL_FAILURE, "04"),
    "version-6": (Fault.MALFORMED_SOCKS, Reply.GENERAL_FAILURE, "06"),
    "bind": (Fault.UNSUPPORTED_SOCKS, Reply.COMMAND_NOT_SUPPORTED, "05 02"),
    "udp-associate": (Fault.UNSUPPORTED_SOCKS, Reply.COMMAND_NOT_SUPPORTED, "05 03"),
    "command-0": (Fault.UNSUPPORTED_SOCKS, Reply.COMMAND_NOT_SUPPORTED, "05 00"),
    "resolve-of-tor": (Fault.UNSUPPORTED_SOCKS, Reply.COMMAND_NOT_SUPPORTED, "05 f0"),
    "reserved-byte": (Fault.MALFORMED_SOCKS, Reply.GENERAL_FAILURE, "05 01 01"),
    "address-type-0": (Fault.UNSUPPORTED_SOCKS, Reply.ADDRESS_TYPE_NOT_SUPPORTED, "05 01 00 00"),
    "address-type-2": (Fault.UNSUPPORTED_SOCKS, Reply.ADDRESS_TYPE_NOT_SUPPORTED, "05 01 00 02"),
    "address-type-5": (Fault.UNSUPPORTED_SOCKS, Reply.ADDRESS_TYPE_NOT_SUPPORTED, "05 01 00 05"),
    "port-0": (Fault.MALFORMED_SOCKS, Reply.GENERAL_FAILURE, "05 01 00 01 c0000201 0000"),
    "port-0-of-name": (Fault.MALFORMED_SOCKS, Reply.GENERAL_FAILURE, "05 01 00 03 01 61 0000"),
}


@pytest.mark.parametrize(("fault", "code", "stream"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_request_is_refused_at_the_byte_that_settles_it(fault, code, stream):
    wrong = bytes.fromhex(stream)
    assert steps_of(GREETING + wrong[:-1]) == [GREETED]
    answer = refused(GREETING + wrong)
    assert (answer.fault, answer.answer) == (fault, struct.pack("!BBxBIH", 5, code, 1, 0, 0))


# --- the reply

REPLIES = {
    "succeeded": (Reply.SUCCEEDED, "192.0.2.1", 40000, "05 00 00 01 c0000201 9c40"),
    "succeeded-ipv6": (Reply.SUCCEEDED, "2001:db8::1", 1, "05 00 00 04 20010db8000000000000000000000001 0001"),
    "not-allowed": (Reply.NOT_ALLOWED, "0.0.0.0", 0, "05 02 00 01 00000000 0000"),
}


@pytest.mark.parametrize(("code", "address", "port", "expected"), REPLIES.values(), ids=REPLIES)
def test_a_reply(code, address, port, expected):
    assert reply(code, ip_address(address), port) == bytes.fromhex(expected)


def test_a_reply_without_an_address_has_the_unspecified_one():
    assert reply(Reply.GENERAL_FAILURE) == GENERAL_FAILURE


def test_the_replies_have_the_numbers_of_rfc_1928():
    assert [code.name for code in sorted(Reply)] == [
        "SUCCEEDED",
        "GENERAL_FAILURE",
        "NOT_ALLOWED",
        "NETWORK_UNREACHABLE",
        "HOST_UNREACHABLE",
        "CONNECTION_REFUSED",
        "TTL_EXPIRED",
        "COMMAND_NOT_SUPPORTED",
        "ADDRESS_TYPE_NOT_SUPPORTED",
    ]
    assert [int(code) for code in sorted(Reply)] == list(range(9))


# --- streams

WHOLE = GREETING + request(b"a.example") + b"early data"


@pytest.mark.parametrize("cut", range(len(WHOLE) + 1))
def test_cut_anywhere(cut):
    steps, trailing = dialogue([WHOLE[:cut], WHOLE[cut:]])
    assert steps == [GREETED, ConnectRequest("a.example", 443)]
    # What the client sends once its request is read is not the parser's any more.
    assert trailing == (b"early data" if cut < len(WHOLE) - 10 else WHOLE[len(WHOLE) - 10 : cut])


def test_a_patient_client():
    parser = Socks5Parser()
    assert parser.feed(GREETING) == GREETED
    assert parser.feed(b"") is NEED_MORE
    assert parser.feed(request(b"a.example")) == ConnectRequest("a.example", 443)
    assert parser.trailing == b""


def test_after_a_request_or_a_refusal_further_pieces_are_ignored_and_not_kept():
    for stream, trailing in ((request(b"a.example") + b"early", b"early"), (b"\x05\x02", b"")):
        parser = Socks5Parser()
        parser.feed(GREETING)
        last = parser.feed(stream)
        assert parser.feed(b"more") is last
        assert parser.trailing == trailing


def by_struct(stream: bytes) -> ConnectRequest | None:
    """Read a greeting and a request in the plainest way there is."""
    try:
        version, count = struct.unpack_from("!BB", stream)
        methods = struct.unpack_from(f"{count}B", stream, 2)
        request_version, command, reserved, kind, first = struct.unpack_from("!5B", stream, 2 + count)
        size = {1: 4, 3: first + 1, 4: 16}[kind]
        address, port = struct.unpack_from(f"!{size}sH", stream, 6 + count)
        host = parse_host(address[1:].decode("ascii")) if kind == 3 else ip_address(address)
    except (struct.error, KeyError, UnicodeDecodeError, SpellingError):
        return None
    good = (version, request_version, command, reserved) == (5, 5, 1, 0) and 0 in methods and port
    return ConnectRequest(host, port) if good else None


HEADS = st.sampled_from([b"", b"\x05", GREETING, GREETING + b"\x05\x01\x00", GREETING + b"\x05\x01\x00\x01"])
NAME_BYTES = st.text("aZ09.-_\0:[]", max_size=12).map(str.encode)


@settings(max_examples=300, deadline=None)
@given(st.builds(bytes.__add__, HEADS, st.binary(max_size=24)) | NAME_BYTES.map(lambda name: GREETING + request(name)))
def test_any_bytes_are_read_as_the_plainest_reader_reads_them(stream):
    steps = steps_of(stream)
    requests = [step for step in steps if isinstance(step, ConnectRequest)]
    expected = by_struct(stream)
    assert requests == ([] if expected is None else [expected])
