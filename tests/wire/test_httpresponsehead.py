"""Heads of responses. The other reader is h11, which has to come to the same wherever it comes to an end."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.http.responsehead import ResponseHead, read_response_head
from belljar.wire.outcome import Refuse

OK = b"HTTP/1.1 200 OK\r\n"
SIZE = 120_000

Said = tuple[int, int | None, bool, bool]


def read(head: bytes) -> Said | None:
    said = read_response_head(head)
    return (said.status, said.length, said.chunked, said.keep_alive) if isinstance(said, ResponseHead) else None


def read_by_h11(head: bytes) -> Said | None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=len(head) + 1)
    connection.send(h11.Request(method="GET", target="/", headers=[("host", "-"), ("upgrade", "any")]))
    connection.send(h11.EndOfMessage())
    try:
        connection.receive_data(head)
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.Response | h11.InformationalResponse):
        return None
    headers = list(event.headers)
    length = next((int(value) for name, value in headers if name == b"content-length"), None)
    chunked = any(name == b"transfer-encoding" for name, _ in headers)
    options = {o.strip().lower() for name, value in headers if name == b"connection" for o in value.split(b",")}
    return event.status_code, length, chunked, event.http_version >= b"1.1" and b"close" not in options


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (OK + b"\r\n", (200, None, False, True)),
        (b"HTTP/1.1 200\n\n", (200, None, False, True)),
        (b"HTTP/1.0 404 Not  Found \xe9\r\nContent-Length:7\t\r\n\r\n", (404, 7, False, False)),
        (OK + b"Content-Length: 3\r\ncontent-length: 3, 3\r\n\r\n", (200, 3, False, True)),
        (OK + b"Transfer-Encoding: Chunked\r\nConnection: x,\tCLOSE\r\n\r\n", (200, None, True, False)),
        (OK + b"X: a\r\n b\r\n\tc\r\nContent-Length:\r\n  12\r\n\r\n", (200, 12, False, True)),
        (OK + b"X:" + b" " * 1000 + b"a" + b"\t" * 1000 + b"b \r\n\r\n", (200, None, False, True)),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: any\r\n\r\n", (101, None, False, True)),
    ],
)
def test_what_a_head_says(head, said):
    assert read(head) == said == read_by_h11(head)


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"HTTP/1.1 99 Low\r\n\r\n",
        b"HTTP/1.1 099 Low\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 200 O\rK\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        OK + b" folded: first\r\n\r\n",
        OK + b"no colon\r\n\r\n",
        OK + b"name : blank\r\n\r\n",
        OK + b"nul: a\0b\r\n\r\n",
        OK + b"cr: a\rb\r\n\r\n",
        OK + b"Content-Length: 1, 2\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Content-Length: " + b"1" * 21 + b"\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    ],
)
def test_what_is_refused(head):
    assert isinstance(read_response_head(head), Refuse)
    assert read_by_h11(head) is None


# A reader that goes back over blanks takes minutes for each of these, and the test with it.
@pytest.mark.parametrize(
    "line",
    [
        b"x:" + b" " * SIZE + b"\0",
        b"x:" + b" \t" * (SIZE // 2) + b"\0",
        b"x:" + b" a" * (SIZE // 2) + b"\0",
        b"x:a" + b" " * SIZE + b"\0",
        b"x: a\r\n" + (b" " * (SIZE // 200) + b"\r\n") * 200 + b" \0",
        b"x" * SIZE,
        b"Content-Length: " + b"1," * (SIZE // 2) + b"2",
    ],
)
def test_no_line_takes_long_to_refuse(line):
    assert isinstance(read_response_head(OK + line + b"\r\n\r\n"), Refuse)


MARKS = [b"a", b":", b" ", b"\t", b"\r\n", b"\n", b"\r", b"\0", b"\x0b", b"\x1c", b"\xa0", b",", b"1", b"2", b"-"]
WORDS = [b"Content-Length:", b"Transfer-Encoding:", b"chunked", b"Connection:", b"close", b"HTTP/1.1 200", b"100"]


@given(
    st.sampled_from([OK, b"HTTP/1.0 204 \r\n", b"HTTP/1.1 1", b""]),
    st.lists(st.sampled_from(MARKS + WORDS), max_size=14),
)
def test_h11_reads_the_same(first_line, pieces):
    head = first_line + b"".join(pieces) + b"\r\n\r\n"
    end = min(found + len(mark) for mark in (b"\n\n", b"\n\r\n") if (found := head.find(mark)) >= 0)
    assert read(head[:end]) == read_by_h11(head[:end])
