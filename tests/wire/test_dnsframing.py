import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.dns.framing import DnsFrames, frame
from belljar.wire.dns.question import MAX_QUERY
from belljar.wire.outcome import Fault, Refuse
from tests.wire.dnsmessages import wire_name, wire_query

QUERIES = [wire_query(), wire_query(wire_name(b"a" * 63, b"example"), ident=2), wire_query(ident=3)]
STREAM = b"".join(frame(query) for query in QUERIES)


def cut(stream: bytes, positions: list[int]) -> list[bytes]:
    edges = [0, *sorted(positions), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


def feed_all(pieces: list[bytes]) -> list[bytes | Refuse]:
    frames = DnsFrames()
    return [item for piece in pieces for item in frames.feed(piece)]


def test_a_frame_has_its_length_in_front():
    assert frame(b"abc") == b"\0\3abc"
    assert frame(b"x" * 65535)[:2] == b"\xff\xff"


def test_several_queries_in_one_piece_come_out_in_their_order():
    assert DnsFrames().feed(STREAM) == QUERIES


@pytest.mark.parametrize("position", range(len(STREAM) + 1))
def test_a_cut_anywhere_makes_no_difference(position):
    assert feed_all(cut(STREAM, [position])) == QUERIES


def test_single_bytes_make_no_difference():
    assert feed_all([bytes([byte]) for byte in STREAM]) == QUERIES


def test_a_query_comes_out_with_its_last_byte_and_not_before():
    frames = DnsFrames()
    message = frame(QUERIES[0])
    assert [frames.feed(bytes([byte])) for byte in message[:-1]] == [[]] * (len(message) - 1)
    assert frames.feed(message[-1:]) == [QUERIES[0]]


def test_the_largest_query_passes():
    query = bytes(MAX_QUERY)
    assert feed_all(cut(frame(query), [1, 2, 3, 1000])) == [query]


@pytest.mark.parametrize(
    ("length", "fault"),
    [
        pytest.param(0, Fault.MALFORMED_DNS, id="empty"),
        pytest.param(11, Fault.MALFORMED_DNS, id="less than a header"),
        pytest.param(MAX_QUERY + 1, Fault.TOO_LARGE, id="one byte too many"),
        pytest.param(65535, Fault.TOO_LARGE, id="the largest"),
        pytest.param(int.from_bytes(b"GE", "big"), Fault.TOO_LARGE, id="HTTP"),
        pytest.param(int.from_bytes(b"\x16\x03", "big"), Fault.TOO_LARGE, id="TLS"),
    ],
)
def test_a_length_that_no_query_has_is_refused_at_once(length, fault):
    frames = DnsFrames()
    [refusal] = frames.feed(struct.pack("!H", length))
    assert isinstance(refusal, Refuse)
    assert refusal.fault is fault


def test_queries_in_front_of_a_refused_length_still_count_and_those_behind_do_not():
    frames = DnsFrames()
    first, refusal = frames.feed(frame(QUERIES[0]) + b"\0\0" + STREAM)
    assert first == QUERIES[0]
    assert isinstance(refusal, Refuse)
    assert frames.feed(STREAM) == []


@given(st.data())
def test_any_segmentation_of_any_stream_gives_the_same(data):
    pieces = st.one_of(st.binary(min_size=12, max_size=40).map(frame), st.binary(max_size=20))
    stream = b"".join(data.draw(st.lists(pieces, max_size=5)))
    positions = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert feed_all(cut(stream, positions)) == feed_all([stream])
