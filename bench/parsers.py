"""How long the parsers on the hot path take, beside other implementations."""

import ssl

import dns.message
import dnslib
import h11

from belljar.wire.dns.question import parse_query
from belljar.wire.http.head import RequestHeadParser
from belljar.wire.tls.clienthello import ClientHelloParser
from bench.timing import interleaved, microseconds, print_table

QUERY = dns.message.make_query("api.example.org", "A", use_edns=0).to_wire()
HEAD = (
    b"GET /search?q=bell+jar HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\n"
    b"Accept: text/html,application/xhtml+xml\r\nAccept-Language: en\r\nAccept-Encoding: gzip, br\r\n"
    b"Connection: keep-alive\r\nCookie: session=0123456789abcdef\r\nUpgrade-Insecure-Requests: 1\r\n\r\n"
)


def client_hello() -> bytes:
    """Return the first flight of OpenSSL's client."""
    outgoing = ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="api.example.org")
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake cannot end without a server")


def bench_parsers() -> None:
    """Compare the DNS question parser and the HTTP head parser with others; time the ClientHello parser."""
    hello = client_hello()
    _compare(
        "DNS question, per message",
        {
            "belljar": lambda: parse_query(QUERY),
            "dnslib": lambda: dnslib.DNSRecord.parse(QUERY),
            "dnspython": lambda: dns.message.from_wire(QUERY),
        },
    )
    _compare(
        f"TLS ClientHello ({len(hello)} bytes) and HTTP request head ({len(HEAD)} bytes), per message",
        {
            "belljar: ClientHello": lambda: ClientHelloParser().feed(hello),
            "belljar: HTTP head, strict": lambda: RequestHeadParser().feed(HEAD),
            "h11: HTTP head": _parse_with_h11,
        },
    )


def _parse_with_h11() -> object:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(HEAD)
    return connection.next_event()


def _compare(title: str, candidates: dict[str, object]) -> None:
    times = interleaved(candidates, rounds=200, calls=50)  # type: ignore[arg-type]
    ours = next(iter(times.values())).best
    print_table(
        title,
        ("parser", "best", "median", "ratio to the first"),
        [(name, microseconds(t.best), microseconds(t.median), f"{t.best / ours:.1f}") for name, t in times.items()],
    )
