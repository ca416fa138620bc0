"""The two outputs of a command are taken apart as they were put together, however the stream is cut."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.backends.containers.exec.frames import STDERR, STDOUT, FrameReader

frames = st.lists(st.tuples(st.sampled_from([STDOUT, STDERR]), st.binary(max_size=2000)), max_size=8)


def framed(output: int, content: bytes) -> bytes:
    return struct.pack(">BxxxI", output, len(content)) + content


def read(*pieces: bytes) -> dict[int, bytes]:
    reader, seen = FrameReader(), {STDOUT: b"", STDERR: b""}
    for piece in pieces:
        for output, content in reader.feed(piece):
            assert content
            seen[output] += content
    return seen


@given(frames)
def test_what_was_put_together_is_taken_apart(wanted):
    seen = read(b"".join(framed(*frame) for frame in wanted))
    for output in (STDOUT, STDERR):
        assert seen[output] == b"".join(content for other, content in wanted if other == output)


@given(frames, st.data())
def test_cut_anywhere(wanted, data):
    stream = b"".join(framed(*frame) for frame in wanted)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    assert read(*pieces) == read(stream)


def test_cut_at_every_byte():
    stream = framed(STDOUT, b"one") + framed(STDERR, b"") + framed(STDERR, b"two" * 300) + framed(STDOUT, b"three")
    expected = {STDOUT: b"onethree", STDERR: b"two" * 300}
    assert read(*(stream[position : position + 1] for position in range(len(stream)))) == expected
    for position in range(len(stream)):
        assert read(stream[:position], stream[position:]) == expected


@given(st.lists(st.binary()))
def test_arbitrary_bytes(pieces):
    assert sum(map(len, read(*pieces).values())) <= sum(map(len, pieces))


def test_a_long_frame_is_handed_on_as_it_comes():
    reader = FrameReader()
    assert reader.feed(framed(STDOUT, b"x" * 100_000)[:1008]) == [(STDOUT, b"x" * 1000)]
    assert reader.feed(b"x" * 10) == [(STDOUT, b"x" * 10)]


def test_what_the_engine_says_itself_is_no_output():
    assert read(framed(3, b"the engine")) == {STDOUT: b"", STDERR: b"the engine"}


@pytest.mark.parametrize("verb", [b"read", b"write"])
def test_what_podman_says_of_its_sockets_is_no_output(verb):
    said = b"Error: %b unixpacket @->/proc/self/fd/16/attach: %b: connection reset by peer\n" % (verb, verb)
    reader = FrameReader()
    assert reader.feed(framed(STDOUT, said) + framed(STDERR, b"quoted: " + said)) == [
        (STDOUT, said),
        (STDERR, b"quoted: " + said),
    ]
    assert not reader.was_reset
    assert reader.feed(framed(STDERR, said)) == []
    assert reader.was_reset
