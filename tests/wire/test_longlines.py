"""First lines without end: whoever reads what is left of them comes to the same conclusion."""

import pytest

from belljar.wire.http.head import RequestHead, RequestHeadParser
from belljar.wire.http.longlines import LongLine
from belljar.wire.outcome import NEED_MORE, Fault, Refuse

MUCH = 1 << 20


def conclusion(stream: bytes, size: int) -> tuple[object, int]:
    """Return what the parser makes of what is left of a stream, and how much that was."""
    line, parser, kept = LongLine(), RequestHeadParser(), 0
    answer: object = NEED_MORE
    for start in range(0, len(stream), size):
        left = line.feed(stream[start : start + size])
        kept += len(left)
        answer = parser.feed(left)
    return (answer.fault if isinstance(answer, Refuse) else answer), kept


@pytest.mark.parametrize("size", [1000, 4096, 65536, 1 << 22])
@pytest.mark.parametrize(
    "line", [b"x" * MUCH, b"hello world " * (MUCH // 12), b"x" * MUCH + b" " + b"y z/ " * (MUCH // 5)]
)
def test_an_endless_text_is_neither_kept_nor_taken_for_anything(line, size):
    answer, kept = conclusion(line, size)
    assert answer is NEED_MORE
    assert kept <= 4096


@pytest.mark.parametrize("size", [1000, 65536, 1 << 22])
@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"x" * MUCH + b"\r\n", Fault.NOT_HTTP),
        (b"x" * MUCH + b"<", Fault.NOT_HTTP),
        (b"hello world " * (MUCH // 12) + b"\n", Fault.NOT_HTTP),
        (b"x" * MUCH + b" / HTTP/1.1\r\nHost: evil.example\r\n\r\n", Fault.MALFORMED_HTTP),
        (b"x" * MUCH + b" /\r\n", Fault.MALFORMED_HTTP),
        (b"x y " * (MUCH // 4) + b"HTTP/1.1\r\nHost: evil.example\r\n\r\n", Fault.MALFORMED_HTTP),
        (b"x y " * (MUCH // 4) + b"http/1.1\n\n", Fault.MALFORMED_HTTP),
        (b"GET /" + b"x" * MUCH, Fault.TOO_LARGE),
        (b"POST  /" + b"x" * MUCH, Fault.TOO_LARGE),
        (b"x" + b" " * MUCH, Fault.TOO_LARGE),
        (b"hello http " * (MUCH // 11), Fault.TOO_LARGE),
    ],
)
def test_what_matters_in_a_long_line_is_seen(line, fault, size):
    assert conclusion(line, size)[0] is fault


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_telling_word_is_seen_wherever_it_is_cut(cut):
    before, telling = b"x y " * 1024, b"y HTTP/1.1\r\n"
    line, parser = LongLine(), RequestHeadParser()
    answer: object = NEED_MORE
    for piece in (before[: -cut % 7], before[-cut % 7 :], before, telling[:cut], telling[cut:]):
        answer = parser.feed(line.feed(piece))
    assert isinstance(answer, Refuse)
    assert answer.fault is Fault.MALFORMED_HTTP


def test_an_ordinary_request_is_left_alone():
    head = b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: plain.example\r\n\r\n"
    assert LongLine().feed(head) == head
    assert isinstance(RequestHeadParser().feed(LongLine().feed(head)), RequestHead)
