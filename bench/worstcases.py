"""The worst that each parser can be fed at once, 64 KiB of a stream or one message: nobody has a turn meanwhile."""

import struct
from collections.abc import Callable

from belljar.gateway.tcp.responses import ResponseReader
from belljar.wire.dns.framing import DnsFrames
from belljar.wire.dns.question import parse_query
from belljar.wire.dns.response import build_query, read_response
from belljar.wire.http.body import BodyReader
from belljar.wire.http.framing import CHUNKED
from belljar.wire.http.head import RequestHead, RequestHeadParser
from belljar.wire.http.longlines import LongLine
from belljar.wire.http.response import ResponseBody
from belljar.wire.http.responsehead import MAX_LINES
from belljar.wire.postgres import Prelude
from belljar.wire.socks5 import Socks5Parser
from belljar.wire.tls.clienthello import ClientHelloParser
from belljar.wire.tls.retryhello import RetriedHelloParser
from bench.timing import interleaved, met, print_table

GOAL = 2e-3
"""Seconds."""

_SIZE = 65536
_RECORD = b"\x16\x03\x01\0\x01"
_HEADER = struct.Struct("!6H")


def _hello(extensions: bytes) -> bytes:
    body = b"\x03\x03" + bytes(32) + b"\0\0\2\x13\1\1\0" + len(extensions).to_bytes(2) + extensions
    message = b"\1" + len(body).to_bytes(3) + body
    cut = range(0, len(message), 1 << 14)
    pieces = [message[at : at + (1 << 14)] for at in cut]
    return b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2) + piece for piece in pieces)


def _alpn(count: int) -> bytes:
    names = b"\1a" * count
    return b"\0\x10" + (len(names) + 2).to_bytes(2) + len(names).to_bytes(2) + names


def _extensions(count: int) -> bytes:
    return b"".join(struct.pack("!2H", 100 + kind, 0) for kind in range(count))


def _head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"GET / HTTP/1.1", b"Host: a.example", *lines, b"", b""])


def _chunks(size: int) -> bytes:
    chunk = b"%x\r\n%b\r\n" % (size, bytes(size))
    return chunk * (_SIZE // len(chunk))


def _response() -> Callable[[], object]:
    request = RequestHeadParser().feed(_head())
    assert isinstance(request, RequestHead)
    head = b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (MAX_LINES - 2) + b"\r\n"
    return lambda: ResponseReader(request, None).feed(head)


def _answer() -> Callable[[], object]:
    sent = build_query("a.example", 5, 7)
    record = b"\1a" * 120 + b"\0" + struct.pack("!2HLH", 5, 1, 60, 2) + b"\xc0\x0c"
    message = _HEADER.pack(7, 0x8180, 1, 250, 0, 0) + sent.question + record * 250
    return lambda: read_response(message, sent)


def _cases() -> dict[str, Callable[[], object]]:
    long_name = _HEADER.pack(1, 256, 1, 0, 0, 0) + b"\1a" * 127 + b"\0\0\1\0\1"
    streams: dict[str, tuple[Callable[[], Callable[[bytes], object]], bytes]] = {
        "ClientHello, one-byte records": (lambda: ClientHelloParser().feed, (_RECORD + b"\1") * (_SIZE // 6)),
        "ClientHello, many extensions": (lambda: ClientHelloParser().feed, _hello(_extensions(1020))),
        "ClientHello, many protocols": (lambda: ClientHelloParser().feed, _hello(_alpn(1020))),
        "second ClientHello, empty records before": (lambda: RetriedHelloParser().feed, b"\x17\3\3\0\0" * (_SIZE // 5)),
        "PostgreSQL's requests": (lambda: Prelude().feed, bytes.fromhex("0000000804d2162f") * (_SIZE // 8)),
        "HTTP head, many short lines": (lambda: RequestHeadParser().feed, _head(*[b"a:"] * 16_300)),
        "HTTP head, 256 lines": (lambda: RequestHeadParser().feed, _head(*[b"a: " + b"x" * 240] * 255)),
        "HTTP head, long lists": (lambda: RequestHeadParser().feed, _head(b"Connection: " + b"a," * 32_000)),
        "HTTP head, long line": (lambda: RequestHeadParser().feed, b"x " + b"htt" * 21_800 + b"\r\n"),
        "HTTP request, one-byte chunks": (lambda: BodyReader(CHUNKED).feed, _chunks(1)),
        "HTTP request, 64-byte chunks": (lambda: BodyReader(CHUNKED).feed, _chunks(64)),
        "HTTP response, one-byte chunks": (lambda: ResponseBody(chunked=True).feed, _chunks(1)),
        "HTTP response, 64-byte chunks": (lambda: ResponseBody(chunked=True).feed, _chunks(64)),
        "another protocol, long line": (lambda: LongLine().feed, b"hello world " + b"htt" * 21_800),
        "DNS over TCP, 2 KiB of small frames": (lambda: DnsFrames().feed, (b"\0\x0c" + bytes(12)) * (2048 // 14)),
        "SOCKS greeting": (lambda: Socks5Parser().feed, b"\5\xff" + bytes(65_000)),
    }

    def feeding(make: Callable[[], Callable[[bytes], object]], stream: bytes) -> Callable[[], object]:
        return lambda: make()(stream)

    cases = {name: feeding(*case) for name, case in streams.items()}
    cases["HTTP response head"] = _response()
    cases["DNS question, 127 labels"] = lambda: parse_query(long_name)
    cases["DNS answer, 250 long names"] = _answer()
    return cases


def bench_worst_cases() -> None:
    """Time the worst inputs."""
    times = interleaved(_cases(), rounds=100, calls=1)
    print_table(
        "The worst that parsers can be fed at once (goal: ≤ 2 ms)",
        ("input", "best", "median", ""),
        [
            (name, f"{t.best * 1e3:.2f} ms", f"{t.median * 1e3:.2f} ms", met(t.best <= GOAL))
            for name, t in times.items()
        ],
    )
