"""What a client says first, where it breaks off."""

import pytest

from belljar.gateway.tcp.firstbytes import FirstBytesReader, HttpClient, OtherClient
from belljar.wire.outcome import Fault, Refuse


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: evil.example\r\n", id="no empty line"),
        pytest.param(b"GET http://evil.example/ HTTP/1.0", id="no line end"),
        pytest.param(b"GET / HTTP/1.1\rHost: evil.example\r\r", id="CR alone"),
    ],
)
def test_part_of_a_request_does_not_pass_for_another_protocol_when_the_client_ends(stream):
    reader = FirstBytesReader()
    assert reader.feed(stream) is None
    said = reader.feed(b"")
    assert isinstance(said, HttpClient)
    assert isinstance(said.head, Refuse)
    assert said.head.fault is Fault.MALFORMED_HTTP


@pytest.mark.parametrize("stream", [b"", b"QUIT", b"\x16\x03"])
def test_part_of_another_protocol_may_end(stream):
    reader = FirstBytesReader()
    if stream:
        assert reader.feed(stream) is None
    assert reader.feed(b"") == OtherClient(stream, ended=True)
