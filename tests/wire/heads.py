"""Request heads for the tests, and two other readers of them: h11 and the standard library."""

import re
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler
from io import BytesIO

import h11

from belljar.wire.http.head import Http2Preface, RequestHead, RequestHeadParser
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse

Answer = RequestHead | Http2Preface | NeedMore | Refuse


def head(*lines: str) -> bytes:
    """Join lines to a head; latin-1, so that every byte can be written."""
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def get(*headers: str) -> bytes:
    """Return a request for a.example, with these headers."""
    return head("GET / HTTP/1.1", "Host: a.example", *headers)


def byte_by_byte(stream: bytes) -> Iterable[bytes]:
    return (bytes([byte]) for byte in stream)


def read(pieces: Iterable[bytes]) -> Answer:
    parser = RequestHeadParser()
    answer: Answer = NEED_MORE
    for piece in pieces:
        answer = parser.feed(piece)
    return answer


def found(stream: bytes) -> RequestHead:
    """Return the head, having checked that it is found however the stream is cut."""
    answer = read([stream])
    assert isinstance(answer, RequestHead), answer
    assert read(byte_by_byte(stream)) == answer
    return answer


def refusal(stream: bytes) -> Fault:
    """Return why the stream is refused, having checked that it is so however it is cut."""
    answer = read([stream])
    assert isinstance(answer, Refuse), answer
    assert read(byte_by_byte(stream)) == answer
    assert answer.detail.isascii()
    assert answer.detail.isprintable()
    assert len(answer.detail) < 100
    return answer.fault


def bytes_until_answer(stream: bytes) -> int:
    """Return how many bytes the parser had to see."""
    parser = RequestHeadParser()
    return next(count for count, byte in enumerate(stream, 1) if parser.feed(bytes([byte])) is not NEED_MORE)


def check_with_h11(stream: bytes, answer: RequestHead) -> None:
    """Require that h11, given the head alone, finds the same request, its end, and whether another may follow."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 17)
    connection.receive_data(stream)
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    assert (request.method, request.target) == (answer.method.encode(), answer.target.encode())
    assert request.http_version == answer.version.encode()
    assert tuple(request.headers) == answer.headers
    assert connection.they_are_waiting_for_100_continue == answer.expect_continue

    if answer.body.length > 1 << 20:
        return
    body = b"0\r\n\r\n" if answer.body.chunked else bytes(answer.body.length)
    if body:
        assert not _ends_with(connection, body[:-1])
    assert _ends_with(connection, body[-1:])
    if answer.method != "CONNECT" and answer.upgrade is None:
        assert (connection.their_state is h11.DONE) == answer.keep_alive


def h11_finds_a_request(stream: bytes) -> bool:
    """Tell whether h11, which takes any word for a method and any for a target, would serve the stream."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(stream)
    try:
        return isinstance(connection.next_event(), h11.Request)
    except h11.RemoteProtocolError:
        return False


def _ends_with(connection: h11.Connection, data: bytes) -> bool:
    """Tell whether the request ends with this part of its body."""
    if data:  # no data would mean the end of the stream
        connection.receive_data(data)
    while isinstance(event := connection.next_event(), h11.Data):
        pass
    return isinstance(event, h11.EndOfMessage)


class _Handler(BaseHTTPRequestHandler):
    """The standard library's server, without a connection."""

    def __init__(self, stream: bytes) -> None:
        self.rfile = BytesIO(stream)
        self.wfile = BytesIO()
        self.raw_requestline = self.rfile.readline()

    def log_message(self, format, *args):  # noqa: A002 - the name is not ours
        pass


def check_with_stdlib(stream: bytes, answer: RequestHead) -> None:
    """Require that the standard library finds the same request, and one host at most."""
    handler = _Handler(stream)
    assert handler.parse_request()
    assert handler.command == answer.method
    assert handler.request_version == f"HTTP/{answer.version}"
    # It takes away all but one of several slashes at the start, to protect those who join URLs.
    assert handler.path.lstrip("/") == answer.target.lstrip("/")
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in handler.headers.raw_items()]
    assert tuple((name, value.strip(b" \t")) for name, value in headers) == answer.headers


def stdlib_finds_a_request(stream: bytes) -> bool:
    """Tell whether the standard library would serve the stream; it takes any word for a method, even of binary."""
    handler = _Handler(stream)
    return handler.parse_request() and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", handler.command) is not None
