"""The second ClientHello, with OpenSSL as the oracle of when there is one and what it asks for."""

import ssl
from contextlib import suppress

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.outcome import NEED_MORE, Fault, Refuse
from belljar.wire.tls.clienthello import MAX_HELLO, ClientHello
from belljar.wire.tls.retryhello import ANSWER_BYTES, RetriedHelloParser, asks_for_retry
from tests.wire.hellos import hello_body, server_name, vector

CHANGE_CIPHER_SPEC = bytes.fromhex("140303000101")
EARLY_DATA = bytes.fromhex("1703030004") + b"data"
RETRY = bytes.fromhex("16 0303 0058 02 000054 0303 cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c 20")


def hello(name: bytes) -> bytes:
    return b"\x16\3\1" + vector(2, b"\1" + vector(3, hello_body(server_name(name))))


@pytest.fixture(scope="module")
def certificate():
    return trustme.CA().issue_cert("plain.test")


def conversation(certificate, curve: str | None) -> list[tuple[str, bytes]]:
    """Let OpenSSL's client and server shake hands; return who said what."""
    contexts = {"client": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "server": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)}
    contexts["client"].check_hostname, contexts["client"].verify_mode = False, ssl.CERT_NONE
    certificate.configure_cert(contexts["server"])
    if curve is not None:
        contexts["server"].set_ecdh_curve(curve)
    bios = {name: (ssl.MemoryBIO(), ssl.MemoryBIO()) for name in contexts}
    sides = {
        "client": contexts["client"].wrap_bio(*bios["client"], server_hostname="plain.test"),
        "server": contexts["server"].wrap_bio(*bios["server"], server_side=True),
    }
    said = []
    for _ in range(4):
        for name, other in (("client", "server"), ("server", "client")):
            with suppress(ssl.SSLWantReadError):
                sides[name].do_handshake()
            if data := bios[name][1].read():
                said.append((name, data))
                bios[other][0].write(data)
    return said


@pytest.mark.parametrize(("curve", "retries"), [("secp521r1", True), (None, False)])
def test_openssl_asks_for_a_retry_when_it_wants_another_key(certificate, curve, retries):
    """A client of OpenSSL's offers a key for X25519 first, which its server takes unless it is told otherwise."""
    (_, first), (_, answer), (_, second), *_ = conversation(certificate, curve)
    assert asks_for_retry(answer) is retries
    if retries:
        parser = RetriedHelloParser()
        found = parser.feed(second)
        assert isinstance(found, ClientHello)
        assert found.server_name == "plain.test"
    assert first != second


@pytest.mark.parametrize("cut", range(ANSWER_BYTES))
def test_the_answer_is_known_as_soon_as_it_can_be(cut):
    assert asks_for_retry(RETRY[:cut]) is NEED_MORE
    assert asks_for_retry(RETRY) is True
    assert asks_for_retry(RETRY[:20] + b"\0" + RETRY[21:]) is False


@pytest.mark.parametrize("answer", [b"\x15\3\3\0\2\2\x28", b"HTTP/1.1 400 Bad Request", b"\x16\3\3\0\x58\4"])
def test_what_is_no_server_hello_asks_for_nothing(answer):
    assert asks_for_retry(answer) is False


@pytest.mark.parametrize("before", [b"", CHANGE_CIPHER_SPEC, EARLY_DATA, EARLY_DATA * 3 + CHANGE_CIPHER_SPEC])
def test_the_name_is_found_behind_what_may_stand_before_it_however_it_is_cut(before):
    stream = before + hello(b"evil.test")
    for cut in range(len(stream)):
        parser = RetriedHelloParser()
        assert parser.feed(stream[:cut]) is NEED_MORE
        found = parser.feed(stream[cut:])
        assert isinstance(found, ClientHello)
        assert found.server_name == "evil.test"


@pytest.mark.parametrize("other", [b"\x15\3\3\0\2\1\0", b"GET / HTTP/1.1\r\n\r\n", b"\x16\3\3\0\4\2\0\0\0", b"\0" * 10])
def test_anything_else_is_refused(other):
    answer = RetriedHelloParser().feed(CHANGE_CIPHER_SPEC + other)
    assert isinstance(answer, Refuse)
    assert answer.fault is Fault.MALFORMED_TLS


def test_early_data_has_an_end():
    parser = RetriedHelloParser()
    record = b"\x17\3\3\x40\0" + bytes(1 << 14)
    answers = [parser.feed(record) for _ in range(MAX_HELLO // len(record) + 1)]
    assert isinstance(answers[-1], Refuse)
    assert answers[-1].fault is Fault.TOO_LARGE


@given(st.lists(st.binary(max_size=40)))
def test_arbitrary_bytes_do_no_harm(pieces):
    parser = RetriedHelloParser()
    for piece in pieces:
        answer = parser.feed(piece)
        assert answer is NEED_MORE or isinstance(answer, ClientHello | Refuse)
        asks_for_retry(piece)
