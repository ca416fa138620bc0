"""Requests for encryption come off the start of a stream, however it is cut, and nothing else does."""

import pytest

from belljar.wire.outcome import Fault, Refuse
from belljar.wire.postgres import Prelude
from tests.wire.heads import byte_by_byte

TLS, GSS = bytes.fromhex("0000000804d2162f"), bytes.fromhex("0000000804d21630")


@pytest.mark.parametrize("requests", [b"", TLS, GSS, GSS + TLS])
@pytest.mark.parametrize(
    "rest", [b"", b"\x16\x03\x01", b"\0\0\0\x08\x04\xd2\x16\x2e", b"\0\0\0\x50\0\3\0\0user", b"GET"]
)
def test_requests_are_taken_off(requests, rest):
    for pieces in ([requests + rest], byte_by_byte(requests + rest)):
        prelude = Prelude()
        assert b"".join(prelude.feed(piece) for piece in pieces) == rest
        assert (prelude.requests, prelude.ended) == (len(requests) // 8, bool(rest))


@pytest.mark.parametrize("requests", [TLS + TLS, GSS + GSS, GSS + TLS + GSS, TLS * 8192])
def test_who_asks_twice_is_refused(requests):
    for pieces in ([requests + b"x"], byte_by_byte(requests + b"x")):
        prelude = Prelude()
        assert b"".join(prelude.feed(piece) for piece in pieces if prelude.refusal is None) == b""
        assert isinstance(prelude.refusal, Refuse)
        assert prelude.refusal.fault is Fault.MALFORMED_TLS


def test_behind_something_else_nothing_is():
    prelude = Prelude()
    assert prelude.feed(b"x" + TLS) + prelude.feed(TLS) == b"x" + TLS + TLS
    assert prelude.requests == 0
