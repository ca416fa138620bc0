"""The work of every parser is linear in what it is fed, however that is cut: it is counted, not timed."""

import gc
import struct
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from belljar.gateway.tcp.firstbytes import FirstBytesReader
from belljar.wire.dns.framing import DnsFrames
from belljar.wire.dns.question import RefusedQuery, parse_query
from belljar.wire.dns.response import build_query, read_response
from belljar.wire.http.body import BodyReader
from belljar.wire.http.framing import CHUNKED
from belljar.wire.http.head import RequestHeadParser
from belljar.wire.http.longlines import LongLine
from belljar.wire.http.response import ResponseBody
from belljar.wire.outcome import Fault, Refuse
from belljar.wire.postgres import Prelude
from belljar.wire.socks5 import Socks5Parser
from belljar.wire.tls.clienthello import MAX_RECORDS, ClientHelloParser
from belljar.wire.tls.retryhello import RetriedHelloParser
from tests.wire.heads import byte_by_byte
from tests.wire.hellos import alpn, extension, hello, padding, server_name

SSL_REQUEST = bytes.fromhex("0000000804d2162f")

Feed = Callable[[bytes], Any]

STREAMS: dict[str, tuple[Callable[[], Feed], Callable[[int], bytes]]] = {
    "hello": (lambda: ClientHelloParser().feed, lambda n: hello(padding(n))),
    "hello in small records": (lambda: ClientHelloParser().feed, lambda n: hello(padding(n // 60), record_size=1)),
    "hello with many extensions": (
        lambda: ClientHelloParser().feed,
        lambda n: hello(*(extension(1000 + kind) for kind in range(n // 8))),
    ),
    "hello with many protocols": (lambda: ClientHelloParser().feed, lambda n: hello(alpn(*[b"a"] * (n // 4)))),
    "second hello": (lambda: RetriedHelloParser().feed, lambda n: b"\x17\x03\x03\0\0" * (n // 5)),
    "requests for encryption": (lambda: Prelude().feed, lambda n: SSL_REQUEST * (n // 8)),
    "head with many lines": (
        lambda: RequestHeadParser().feed,
        lambda n: b"GET / HTTP/1.1\r\n" + b"a:\r\n" * (n // 4) + b"\r\n",
    ),
    "head of one line": (lambda: RequestHeadParser().feed, lambda n: b"GET /" + b"x" * n),
    "head with a list": (
        lambda: RequestHeadParser().feed,
        lambda n: b"GET / HTTP/1.1\r\nHost: a\r\nConnection: " + b"a," * (n // 2) + b"\r\n\r\n",
    ),
    "small chunks": (lambda: BodyReader(CHUNKED).feed, lambda n: b"1\r\nX\r\n" * (n // 6)),
    "chunks": (lambda: BodyReader(CHUNKED).feed, lambda n: (b"60\r\n" + b"X" * 96 + b"\r\n") * (n // 102)),
    "small chunks of a response": (
        lambda: ResponseBody(chunked=True).feed,
        lambda n: b"001 ;x=y\r\nX\r\n" * (n // 13),
    ),
    "trailers": (lambda: ResponseBody(chunked=True).feed, lambda n: b"0\r\n" + b"a:\r\n" * (n // 20)),
    "text": (lambda: LongLine().feed, lambda n: b"hello world " + b"a b " * (n // 4)),
    "one word": (lambda: LongLine().feed, lambda n: b"a" * n),
    "questions": (lambda: DnsFrames().feed, lambda n: (b"\0\x0c" + bytes(12)) * (n // 14)),
    "socks": (lambda: Socks5Parser().feed, lambda n: b"\x05\xff" + bytes(n)),
    "first bytes: text": (lambda: FirstBytesReader().feed, lambda n: b"hello world " + b"a b " * (n // 4)),
    "first bytes: a path": (lambda: FirstBytesReader().feed, lambda n: b"GET /" + b"x" * n),
    "first bytes: a hello": (lambda: FirstBytesReader().feed, lambda n: hello(padding(n))),
}


def calls_of(feed: Feed, pieces: Iterable[bytes]) -> int:
    """Count the calls, of Python's and of C's functions, that it takes to feed a parser."""
    count = 0

    def note(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    made = list(pieces)
    before = sys.getprofile()
    gc.disable()  # what others have left is no work of a parser's
    sys.setprofile(note)
    try:
        for piece in made:
            feed(piece)
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


@pytest.mark.parametrize("cut", [lambda stream: [stream], byte_by_byte], ids=["whole", "bytewise"])
@pytest.mark.parametrize("name", STREAMS)
def test_twice_as_much_is_at_most_twice_the_work(name, cut):
    make, stream = STREAMS[name]
    once, twice = (calls_of(make(), cut(stream(size))) for size in (6000, 12000))
    assert twice < 2.5 * max(once, 20)


@pytest.mark.parametrize("name", STREAMS)
def test_a_read_is_little_work(name):
    """Of what is read at once, no parser makes more than some thousand steps."""
    make, stream = STREAMS[name]
    assert calls_of(make(), [stream(60000)]) < 20_000


class TestCaps:
    def test_records_of_a_hello(self):
        body = len(hello(server_name(b"a.example"), padding(MAX_RECORDS))) - 5
        size = -(-body // MAX_RECORDS)
        fits = hello(server_name(b"a.example"), padding(MAX_RECORDS), record_size=size)
        assert not isinstance(ClientHelloParser().feed(fits), Refuse)
        many = hello(server_name(b"a.example"), padding(MAX_RECORDS), record_size=1)
        for pieces in ([many], byte_by_byte(many)):
            parser = ClientHelloParser()
            answer = [parser.feed(piece) for piece in pieces][-1]
            assert isinstance(answer, Refuse)
            assert answer.fault is Fault.TOO_LARGE

    @pytest.mark.parametrize(
        "stream", [hello(*(extension(100 + kind) for kind in range(1100))), hello(alpn(*[b"a"] * 1100))]
    )
    def test_entries_of_a_hello(self, stream):
        answer = ClientHelloParser().feed(stream)
        assert isinstance(answer, Refuse)
        assert answer.fault is Fault.TOO_LARGE

    def test_records_before_a_second_hello(self):
        answer = RetriedHelloParser().feed(b"\x17\x03\x03\0\0" * 1100)
        assert isinstance(answer, Refuse)
        assert answer.fault is Fault.TOO_LARGE

    def test_words_of_a_list(self):
        head = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: %b\r\n\r\n"
        assert not isinstance(RequestHeadParser().feed(head % b",".join([b"a"] * 256)), Refuse)
        answer = RequestHeadParser().feed(head % b",".join([b"a"] * 257))
        assert isinstance(answer, Refuse)
        assert answer.fault is Fault.TOO_LARGE

    def test_options_of_a_question(self):
        def question(options: int) -> bytes:
            opt = struct.pack("!B2H2B2H", 0, 41, 1232, 0, 0, 0, 4 * options) + b"\0\1\0\0" * options
            return struct.pack("!6H", 1, 256, 1, 0, 0, 1) + b"\1a\0\0\1\0\1" + opt

        assert not isinstance(parse_query(question(63)), RefusedQuery)
        assert isinstance(parse_query(question(900)), RefusedQuery)

    def test_names_of_an_answer(self):
        """Its labels are not read one by one."""
        sent = build_query("a.example", 5, 7)
        message = bytearray(struct.pack("!6H", 7, 0x8180, 1, 250, 0, 0) + sent.question)
        for _ in range(250):
            message += b"\1a" * 120 + b"\0" + struct.pack("!2HLH", 5, 1, 60, 2) + b"\xc0\x0c"
        assert calls_of(lambda data: read_response(data, sent), [bytes(message)]) < 20_000
