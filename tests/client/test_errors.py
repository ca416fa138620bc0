"""What goes wrong says what to do, under a name that a program can catch."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from belljar import Client
from belljar.client import BugError, ClientError, LostError, NoServerError, RequestError, TokenError
from belljar.client import errors as sdk_errors
from belljar.client.errors import error_of
from belljar.control.http.problems import KINDS, to_data
from belljar.errors import BelljarError
from belljar.runtime.problems import ProblemError

leaking = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
"""The HTTP library leaves a unix socket that could not be connected to the garbage collector."""


@pytest.fixture
def stranger():
    """A server of another kind; what it answers can be set."""

    class Handler(BaseHTTPRequestHandler):
        answer = b""

        def do_GET(self):
            self.wfile.write(self.answer)

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with Client(f"http://127.0.0.1:{server.server_port}", token="t") as client:
            yield Handler, client
        server.shutdown()
        thread.join()


def test_every_code_of_the_server_has_an_error_of_its_own():
    assert set(sdk_errors._OF_CODES) == set(KINDS)


@pytest.mark.parametrize("code", KINDS)
def test_a_problem_arrives_as_it_was_meant(code):
    error = error_of(to_data(ProblemError(code, "it is wrong; mend it", field="a.b")))
    assert isinstance(error, BelljarError)
    assert (error.code, error.field, error.remedy) == (code, "a.b", "mend it")
    assert "wrong; mend it" in str(error) or code == "unauthorized"


def test_codes_of_a_newer_server_go_by_their_status():
    def told(status: int) -> dict[str, object]:
        return {"code": "new", "status": status, "field": None, "detail": "d", "remedy": None, "problems": []}

    assert type(error_of(told(409))) is RequestError
    assert type(error_of(told(503))) is BugError
    assert type(error_of({})) is BugError


@leaking
def test_without_a_server_it_is_told_how_to_start_one(tmp_path):
    with Client(tmp_path) as client:
        with pytest.raises(NoServerError, match="belljar serve"):
            list(client.sandboxes())
        (tmp_path / "belljar.sock").touch()
        with pytest.raises(NoServerError, match="belljar serve"):
            list(client.sandboxes())


def test_the_token_is_needed_over_tcp(server, monkeypatch):
    url = f"http://127.0.0.1:{server.port}"
    for token in (None, "wrong"):
        with Client(url, token=token) as client, pytest.raises(TokenError, match="belljar token show"):
            list(client.sandboxes())
    monkeypatch.setenv("BELLJAR_TOKEN", server.token)
    monkeypatch.setenv("BELLJAR_SERVER", url)
    with Client() as client:
        list(client.sandboxes())


def test_a_token_never_goes_to_the_environments_proxy(server, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Client(f"http://127.0.0.1:{server.port}", token=server.token) as client:
        list(client.sandboxes())


@pytest.mark.parametrize("text", ["ftp://x", "http://", "http://h:1/path", "https://h?q", "http:///x"])
def test_what_is_no_server_is_told_at_once(text):
    with pytest.raises(NoServerError, match="is no server; write http://HOST:PORT"):
        Client(text)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\n\r\n<html>", BugError, id="a web page"),
        pytest.param(b"HTTP/1.1 404 Not Found\r\n\r\nnothing", BugError, id="nothing there"),
        pytest.param(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", BugError, id="elsewhere"),
        pytest.param(b'HTTP/1.1 200 OK\r\n\r\n{"sandboxes": [{}]}', BugError, id="other shapes"),
        pytest.param(b"HTTP/1.1 500 No\r\nContent-Type: application/problem+json\r\n\r\n{", BugError, id="half"),
        pytest.param(b"", LostError, id="silence"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", LostError, id="cut off"),
        pytest.param(b"\xff\0\xff\r\n\r\n", LostError, id="no HTTP"),
    ],
)
def test_what_is_no_answer_of_belljars_is_no_traceback_of_another_library(stranger, answer, kind):
    handler, client = stranger
    handler.answer = answer
    with pytest.raises(ClientError) as caught:
        list(client.sandboxes())
    assert type(caught.value) is kind
    with pytest.raises(ClientError), client.events() as events:
        next(events)


def test_events_that_cannot_be_understood(stranger):
    handler, client = stranger
    for data in ("{", json.dumps({"event": "x"}), "[]"):
        handler.answer = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\ndata: {data}\n\n".encode()
        with client.events() as events, pytest.raises(BugError, match="cannot be understood"):
            next(events)
