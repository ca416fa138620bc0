"""Where a body ends: the same for every reader, or nowhere. The other reader is h11."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.http.body import BodyReader
from belljar.wire.http.framing import CHUNKED, NO_BODY, Body
from belljar.wire.outcome import Fault, Refuse
from tests.wire.heads import byte_by_byte, get

NEXT = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"


def read(body: Body, stream: bytes) -> int | Refuse | None:
    """Return where a body ends, None if it goes on, having checked that it does so however the stream is cut."""
    whole, cut = BodyReader(body), BodyReader(body)
    answer = whole.feed(stream)
    position = 0
    for byte in byte_by_byte(stream):
        own = cut.feed(byte)
        if isinstance(own, Refuse):
            assert own == answer
            return answer
        position += own
    assert (position, cut.ended) == (answer, whole.ended)
    return answer if whole.ended else None


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_body_of_known_length(length):
    assert read(Body(length), bytes(length) + NEXT) == length
    if length:
        assert read(Body(length), bytes(length - 1)) is None


def test_no_body_ends_where_it_begins():
    assert BodyReader(NO_BODY).ended
    assert read(NO_BODY, NEXT) == 0


CHUNKS = {
    "nothing": b"0\r\n\r\n",
    "one": b"5\r\nhello\r\n0\r\n\r\n",
    "two": b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n",
    "hexadecimal": b"1a\r\n" + bytes(26) + b"\r\nA\r\n" + bytes(10) + b"\r\n0\r\n\r\n",
    "leading-zeros": b"0005\r\nhello\r\n000\r\n\r\n",
    "line-ends-inside": b"4\r\n\r\n\r\n\r\n0\r\n\r\n",
    "a-request-inside": b"%x\r\n%b\r\n0\r\n\r\n" % (len(NEXT), NEXT),
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_end_at_the_empty_line(chunks):
    assert read(CHUNKED, chunks + NEXT) == len(chunks) == end_for_h11(chunks + NEXT)
    assert read(CHUNKED, chunks[:-1]) is None


AMBIGUOUS = {
    "bare-lf-behind-a-size": b"0\n\r\n",
    "bare-lf-behind-a-chunk": b"1\r\nx\n0\r\n\r\n",
    "bare-lf-for-the-empty-line": b"0\r\n\n",
    "bare-lf-behind-a-trailer": b"0\r\nA: b\n\r\n",
    "bare-lf-twice": b"0\r\nA: b\n\n",
    "bare-cr-behind-a-size": b"1\rx\r\n0\r\n\r\n",
    "longer-than-announced": b"1\r\nxy\r\n0\r\n\r\n",
    "shorter-than-announced": b"5\r\nx\r\n0\r\n\r\n",
    "no-size": b"\r\n",
    "empty-line-in-front": b"\r\n0\r\n\r\n",
    "sign": b"+1\r\nx\r\n0\r\n\r\n",
    "minus": b"-1\r\nx\r\n0\r\n\r\n",
    "prefix": b"0x1\r\nx\r\n0\r\n\r\n",
    "underscore": b"1_0\r\nx\r\n0\r\n\r\n",
    "space-in-front": b" 1\r\nx\r\n0\r\n\r\n",
    "space-behind": b"1 \r\nx\r\n0\r\n\r\n",
    "extension": b"1;a=b\r\nx\r\n0\r\n\r\n",
    "extension-with-cr": b"1;a\rb\r\nx\r\n0\r\n\r\n",
    "extension-with-lf": b"1;a\nb\r\nx\r\n0\r\n\r\n",
    "more-than-64-bits": b"10000000000000001\r\nx\r\n0\r\n\r\n",
    "16-digits": b"0000000000000001\r\nx\r\n0\r\n\r\n",
    "wide-digit": b"\xd9\xa1\r\nx\r\n0\r\n\r\n",
    "trailer": b"0\r\nChecksum: abc\r\n\r\n",
    "endless-size": b"0" * 99,
    "trailing-host": b"0\r\nHost: evil.example\r\n\r\n",
    "trailing-length": b"0\r\nContent-Length: 5\r\n\r\n",
    "trailing-encoding": b"0\r\nTransfer-Encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("chunks", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_an_end_that_two_readers_could_see_in_different_places_is_refused(chunks):
    answer = read(CHUNKED, chunks + NEXT)
    assert isinstance(answer, Refuse)
    assert answer.fault is Fault.AMBIGUOUS_HTTP_LENGTH


def test_a_refusal_is_final():
    reader = BodyReader(CHUNKED)
    refused = reader.feed(b"x")
    assert isinstance(refused, Refuse)
    assert reader.feed(b"0\r\n\r\n") == refused


def end_for_h11(stream: bytes) -> int | None:
    """Return where h11 sees the end of the body; None if it sees none."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(get("Transfer-Encoding: chunked") + stream)
    try:
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.EndOfMessage):
                return len(stream) - len(connection.trailing_data[0])
    except h11.RemoteProtocolError:
        pass
    return None


PIECES = [b"0", b"1", b"2", b"5", b"f", b"x", b"\r\n", b"\r\n", b"\n", b"\r", b" ", b";", b"A: b", b"0\r\n\r\n"]


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=12).map(b"".join))
def test_where_a_body_ends_it_ends_for_h11_too(stream):
    answer = read(CHUNKED, stream)
    if isinstance(answer, int):
        assert end_for_h11(stream) == answer


@given(st.lists(st.integers(1, 70), max_size=30), st.integers(0, 3), st.data())
def test_chunks_of_any_size_in_any_pieces(sizes, zeros, data):
    """Small ones are stepped over many at a time, which must make no difference."""
    line = b"%b%%x\r\n" % (b"0" * zeros)
    chunks = b"".join(line % size + (b"\r\n1" * size)[:size] + b"\r\n" for size in sizes) + b"0\r\n\r\n"
    stream = chunks + NEXT
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader, position = BodyReader(CHUNKED), 0
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        own = reader.feed(stream[start:end])
        assert isinstance(own, int)
        position += own
    assert reader.ended
    assert position == len(chunks) == end_for_h11(stream)
