"""Where a response ends, and what may follow it. The other reader is h11."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.tcp.responses import MAX_HEAD, MAX_INTERIM, ResponseReader
from belljar.wire.http.head import RequestHead
from belljar.wire.http.response import MAX_CHUNK_LINE, MAX_TRAILERS
from belljar.wire.http.responsehead import MAX_LINES
from tests.wire.heads import byte_by_byte, found, head

GET, HEAD = found(head("GET / HTTP/1.1", "Host: a.example")), found(head("HEAD / HTTP/1.1", "Host: a.example"))
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
BEHIND = b"HTTP/1.1 200 unasked\r\n\r\n"

Outcome = tuple[int, bool, bool, bool]


def read(stream: bytes, request: RequestHead = GET, upgrade: bytes | None = None) -> Outcome | None:
    """Return how many bytes are the response's, whether it has ended, whether another may follow, whether it switched.

    None is for what is no response. It is checked that all this is so however the stream is cut.
    """
    outcomes: list[Outcome | None] = []
    for pieces in ([stream], byte_by_byte(stream)):
        reader, position = ResponseReader(request, upgrade), 0
        try:
            for piece in pieces:
                if not reader.ended:
                    position += reader.feed(piece)
        except ConnectionResetError:
            outcomes.append(None)
        else:
            outcomes.append((position, reader.ended, reader.keep_alive, reader.has_switched))
    whole, cut = outcomes
    if whole is None or not whole[3]:  # what a new protocol has to say counts as far as it came along
        assert whole == cut
    return whole


def read_by_h11(stream: bytes, request: RequestHead = GET) -> Outcome | None:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    connection.send(h11.Request(method=request.method, target="/", headers=[("host", "-")]))
    connection.send(h11.EndOfMessage())
    try:
        connection.receive_data(stream)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return len(stream), False, False, False
            if isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                own = len(stream) - len(connection.trailing_data[0])
                return own, True, connection.their_state is h11.DONE, False
    except h11.RemoteProtocolError:
        return None


RESPONSES = {
    "length": OK + b"Content-Length: 5\r\n\r\nhello",
    "length-zero": OK + b"Content-Length: 0\r\n\r\n",
    "same-length-twice": OK + b"Content-Length: 2, 2\r\n\r\nhi",
    "line-feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    "continue-first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    + OK
    + b"Content-Length: 1\r\n\r\nx",
    "no-content": b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
    "not-modified": b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    "close": OK + b"Connection: foo, Close\r\nContent-Length: 1\r\n\r\nx",
    "old": b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
    "no-reason": b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx",
    "chunks": CHUNKED + b"5\r\nhello\r\n20\r\n" + bytes(32) + b"\r\n100\r\n" + bytes(256) + b"\r\n0\r\n\r\n",
    "chunks-none": CHUNKED + b"0\r\n\r\n",
    "chunks-zeros": CHUNKED + b"0005\r\nhello\r\n000000000000000000b\r\nhello world\r\n00\r\n\r\n",
    "extensions": CHUNKED + b"5;a=b\r\nhello\r\n1 \r\n!\r\n0;end\r\n\r\n",
    "trailers": CHUNKED + b"1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n",
    "chunks-beat-length": OK + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n1\r\nx\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("stream", RESPONSES.values(), ids=RESPONSES)
def test_the_end_is_where_h11_sees_it(stream):
    outcome = read(stream + BEHIND)
    assert outcome is not None
    assert outcome[:2] == (len(stream), True)
    assert outcome == read_by_h11(stream + BEHIND)
    for cut in range(1, len(stream)):
        assert read(stream[:cut]) == (cut, False, False, False)


def test_a_response_to_head_has_no_body():
    stream = OK + b"Content-Length: 5\r\n\r\n"
    assert read(stream + BEHIND, HEAD) == read_by_h11(stream + BEHIND, HEAD) == (len(stream), True, True, False)


def test_a_body_without_a_length_ends_with_the_stream():
    reader = ResponseReader(GET, None)
    assert reader.feed(OK + b"\r\nall that") == len(OK) + 10
    assert not reader.ended
    assert reader.feed(b"") == 0
    assert (reader.ended, reader.keep_alive) == (True, False)


def test_a_server_that_says_nothing_has_ended():
    reader = ResponseReader(GET, None)
    reader.feed(b"")
    assert (reader.ended, reader.keep_alive) == (True, False)


@pytest.mark.parametrize("said", [b"HTTP/1.1 200", OK + b"Content-Length: 5\r\n\r\nhell", CHUNKED + b"5\r\n", CHUNKED])
def test_a_response_that_breaks_off(said):
    reader = ResponseReader(GET, None)
    reader.feed(said)
    with pytest.raises(ConnectionResetError):
        reader.feed(b"")


def test_a_switch_that_was_offered():
    stream = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    assert read(stream + b"\x81\x00", upgrade=b"websocket") == (len(stream) + 2, True, False, True)


NO_RESPONSES = {
    "switch-unasked": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "binary": b"\x16\x03\x03\0\x02",
    "empty-line": b"\r\n\r\n",
    "text": b"SSH-2.0-x\r\n\r\n",
    "two-lengths": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
    "other-coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "no-size": CHUNKED + b"x\r\n",
    "no-end-of-chunk": CHUNKED + b"1\r\nabc",
}


@pytest.mark.parametrize("stream", NO_RESPONSES.values(), ids=NO_RESPONSES)
def test_what_is_no_response(stream):
    assert read(stream) is None
    assert read_by_h11(stream) is None


TOO_MUCH = {
    "head": OK + b"X: " + b"x" * MAX_HEAD,
    "interim": b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INTERIM + 1) + OK + b"\r\n",
    "interim-without-end": b"HTTP/1.1 100\n\n" * 5000,
    "lines": OK + b"a:\r\n" * MAX_LINES + b"\r\n",
    "extension": CHUNKED + b"1;" + b"x" * MAX_CHUNK_LINE,
    "trailers": CHUNKED + b"0\r\n" + b"a:\r\n" * (MAX_TRAILERS // 4),
}


@pytest.mark.parametrize("stream", TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_takes_a_server_too_many_words(stream):
    assert read(stream) is None


@pytest.mark.parametrize(
    ("stream", "within"),
    [
        (b"", False),
        (b"HTTP", True),
        (CHUNKED, False),
        (CHUNKED + b"5", True),
        (CHUNKED + b"5\r\nhel", False),
        (CHUNKED + b"5\r\nhello\r\n", False),
        (CHUNKED + b"0\r\nA:", True),
        (OK + b"Content-Length: 5\r\n\r\nhel", False),
    ],
)
def test_what_is_to_be_complete_before_long(stream, within):
    reader = ResponseReader(GET, None)
    if stream:
        reader.feed(stream)
    assert reader.within_line is within


def test_interim_responses_up_to_the_limit():
    stream = b"HTTP/1.1 102 Processing\r\n\r\n" * MAX_INTERIM + OK + b"Content-Length: 0\r\n\r\n"
    assert read(stream + BEHIND) == (len(stream), True, True, False)


SIZES = st.lists(st.integers(1, 70), max_size=30)


@given(SIZES, st.sampled_from([b"", b";x", b";x=y ", b" "]), st.integers(0, 3), st.data())
def test_chunks_of_any_size_in_any_pieces(sizes, extension, zeros, data):
    line = b"%b%%x%b\r\n" % (b"0" * zeros, extension)
    body = b"".join(line % size + (b"\r\n1" * size)[:size] + b"\r\n" for size in sizes)
    stream = CHUNKED + body + b"0\r\n\r\n" + BEHIND
    expected = read_by_h11(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader, position = ResponseReader(GET, None), 0
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if start < end and not reader.ended:
            position += reader.feed(stream[start:end])
    assert (position, reader.ended, reader.keep_alive, False) == expected


@given(st.binary(min_size=1, max_size=80))
def test_any_bytes(stream):
    read(stream)
    read(CHUNKED + stream)
