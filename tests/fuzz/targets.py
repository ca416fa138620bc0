"""What is fuzzed, and what must hold for any bytes at all.

Each target takes bytes and checks what its parser promises: it never raises, its answer does not depend on how the
bytes were cut, and what it found is in canonical form.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from belljar.names import SpellingError, canonical_name
from belljar.policy import InvalidPolicyError, Syntax, compile_policy, question, read_policy, render
from belljar.policy.importers import import_policy
from belljar.wire.dns.answer import refusal_answer
from belljar.wire.dns.format import RecordType
from belljar.wire.dns.forwarded import read_records
from belljar.wire.dns.framing import DnsFrames
from belljar.wire.dns.question import Query, parse_query
from belljar.wire.dns.response import Resolution, build_query, read_response
from belljar.wire.http.body import BodyReader
from belljar.wire.http.framing import CHUNKED
from belljar.wire.http.head import MAX_HEAD, RequestHead, RequestHeadParser
from belljar.wire.outcome import NEED_MORE, Refuse
from belljar.wire.socks5 import Socks5Parser
from belljar.wire.tls.clienthello import MAX_HELLO, ClientHello, ClientHelloParser

CORPUS = Path(__file__).parent / "corpus"
SENT = build_query("www.example.org", RecordType.A, 0x1234)


def seeds(target: str) -> list[bytes]:
    """Return the corpus of a target, in a stable order."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def fuzz_clienthello(data: bytes) -> None:
    whole, parser = _feed(ClientHelloParser, data)
    assert whole == _feed_cut(ClientHelloParser, data)
    assert len(parser.received) <= max(MAX_HELLO, len(data))
    if isinstance(whole, ClientHello) and whole.server_name is not None:
        assert canonical_name(whole.server_name) == whole.server_name


def fuzz_httphead(data: bytes) -> None:
    whole, parser = _feed(RequestHeadParser, data)
    assert whole == _feed_cut(RequestHeadParser, data)
    assert len(parser.received) <= max(MAX_HEAD, len(data))
    assert parser.end() == whole or whole is NEED_MORE
    if isinstance(whole, RequestHead) and isinstance(whole.host, str):
        assert canonical_name(whole.host) == whole.host
        assert whole.host.encode() in data.lower()


def fuzz_httpbody(data: bytes) -> None:
    whole, cut = BodyReader(CHUNKED), BodyReader(CHUNKED)
    answer = whole.feed(data)
    pieces = [cut.feed(data[index : index + 1]) for index in range(len(data))]
    if isinstance(answer, Refuse):
        assert answer in pieces
    else:
        assert (answer, whole.ended) == (sum(piece for piece in pieces if isinstance(piece, int)), cut.ended)


def fuzz_socks5(data: bytes) -> None:
    assert _feed_all(Socks5Parser, [data]) == _feed_all(Socks5Parser, [data[i : i + 1] for i in range(len(data))])


def fuzz_dns(data: bytes) -> None:
    answer = parse_query(data)
    if isinstance(answer, Query):
        assert answer.name is None or canonical_name(answer.name) == answer.name
    else:
        reply = refusal_answer(data, answer)
        assert reply is None or reply[:2] == data[:2]


def fuzz_dnsresponse(data: bytes) -> None:
    read_records(data, SENT)
    answer = read_response(data, SENT)
    if isinstance(answer, Resolution):
        assert answer.addresses
        assert all(address.packed in data for address in answer.addresses)
        assert 0 <= answer.ttl < 2**31


def fuzz_dnsframes(data: bytes) -> None:
    cut = DnsFrames()
    pieces = [cut.feed(data[index : index + 1]) for index in range(len(data))]
    assert DnsFrames().feed(data) == [answer for answers in pieces for answer in answers]


def fuzz_policy(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    for syntax in Syntax:
        try:
            policy = read_policy(text, syntax).policy
            compiled = compile_policy(policy)
        except InvalidPolicyError as error:
            assert str(error).isprintable() or "\n" in str(error)
            continue
        assert read_policy(render(policy, syntax), syntax).policy == policy
        assert compiled.decide(question("metadata.google.internal")).allowed is False


def fuzz_imports(data: bytes) -> None:
    try:
        imported = import_policy(data.decode(errors="surrogateescape"))
    except InvalidPolicyError:
        return
    assert read_policy(render(imported.policy, Syntax.YAML), Syntax.YAML).policy == imported.policy


def fuzz_names(data: bytes) -> None:
    text = data.decode(errors="surrogateescape")
    try:
        name = canonical_name(text)
    except SpellingError:
        return
    assert canonical_name(name) == name == canonical_name(f"{name}.".upper())


TARGETS: dict[str, Callable[[bytes], None]] = {
    "clienthello": fuzz_clienthello,
    "httphead": fuzz_httphead,
    "httpbody": fuzz_httpbody,
    "socks5": fuzz_socks5,
    "dns": fuzz_dns,
    "dnsresponse": fuzz_dnsresponse,
    "dnsframes": fuzz_dnsframes,
    "policy": fuzz_policy,
    "imports": fuzz_imports,
    "names": fuzz_names,
}


def _feed(parser_type: type[Any], data: bytes) -> tuple[Any, Any]:
    parser = parser_type()
    return parser.feed(data), parser


def _feed_cut(parser_type: type[Any], data: bytes) -> Any:
    """Feed the bytes one at a time first, then in larger and larger pieces."""
    parser = parser_type()
    answer: Any = NEED_MORE
    position, size = 0, 1
    while position < len(data) and answer is NEED_MORE:
        answer = parser.feed(data[position : position + size])
        position += size
        size += position // 64
    return answer


def _feed_all(parser_type: type[Any], pieces: list[bytes]) -> Any:
    """Feed a parser that answers several times; return its last answer that was not "need more"."""
    parser = parser_type()
    last: Any = NEED_MORE
    for piece in pieces:
        answer = parser.feed(piece)
        while answer is not NEED_MORE and answer != last:
            last, answer = answer, parser.feed(b"")
    return last
