"""Providers that cannot be had, and what is said of it; and that no key is ever among what comes out."""

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from belljar.policy.services import Budget
from tests.broker.running import KEY, Running, drain, service
from tests.broker.standin import Call, StandIn
from tests.broker.test_smuggling import ATTACKS

ASK = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.belljar.internal\r\nContent-Length: 2\r\n\r\n{}"


@contextmanager
def standin(authority: trustme.CA, *names: str) -> Iterator[StandIn]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    with StandIn(context) as found:
        yield found


class _Proxy(http.server.BaseHTTPRequestHandler):
    """A proxy on the way out, which notes whom it was asked for."""

    asked: list[tuple[str, str | None]]
    refuses = False

    def do_CONNECT(self) -> None:
        self.asked.append((self.path, self.headers.get("proxy-authorization")))
        if self.refuses:
            self.send_error(403, "Not for you")
            return
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as upstream:
            self.send_response(200)
            self.end_headers()
            up = threading.Thread(target=_copy, args=(self.connection, upstream), daemon=True)
            up.start()
            _copy(upstream, self.connection)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's interface
        pass


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@contextmanager
def corporate_proxy(*, refuses: bool = False) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    asked: list[tuple[str, str | None]] = []
    handler = type("Handler", (_Proxy,), {"asked": asked, "refuses": refuses})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@contextmanager
def running(tmp_path: Path, environ: dict[str, str]) -> Iterator[Running]:
    found = Running(tmp_path, environ)
    yield found
    found.stop()


def test_a_certificate_that_nobody_vouches_for_is_refused(broker: Running):
    with standin(trustme.CA(), "localhost") as impostor:
        answer = broker.ask(service(impostor.url), body="{}")
        assert not impostor.raw
    assert answer.status == 502
    assert "certificate of localhost cannot be verified" in answer.json["error"]["message"]


def test_a_certificate_of_another_name_is_refused(broker: Running, authority: trustme.CA):
    with standin(authority, "elsewhere.test") as impostor:
        answer = broker.ask(service(impostor.url), body="{}")
        assert not impostor.raw
    assert (answer.status, "cannot be verified" in answer.json["error"]["message"]) == (502, True)


def test_no_tls_where_there_should_be_is_told_of(broker: Running):
    with StandIn() as plain:
        answer = broker.ask(service(plain.url.replace("http:", "https:")), body="{}")
        assert not plain.seen
    assert (answer.status, "TLS" in answer.json["error"]["message"]) == (502, True)


def test_plain_http_is_spoken_where_the_policy_says_so(broker: Running):
    with StandIn() as plain:
        assert broker.ask(service(plain.url), body="{}").status == 200


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\ncontent-length: 1, 2\r\n\r\n"])
def test_an_answer_that_is_no_http_is_told_of(broker: Running, provider: StandIn, answer: bytes):
    async def page(call: Call) -> None:
        await call.send(answer)
        call.writer.close()

    provider.pages["/v1/messages"] = page
    found = broker.ask(service(provider.url), body="{}")
    provider.pages.clear()
    assert found.status == 502
    assert "did not answer in proper HTTP" in found.json["error"]["message"]


def test_an_answer_that_breaks_off_is_seen_to(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        call.writer.close()

    provider.pages["/v1/messages"] = page
    answer = broker.raw(service(provider.url), ASK)
    provider.pages.clear()
    assert answer.endswith(b"half")
    assert b"content-length: 100" in answer.lower()


def test_a_length_beside_chunks_means_nothing(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.send(
            b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n"
        )

    provider.pages["/v1/messages"] = page
    answer = broker.ask(service(provider.url), body="{}")
    provider.pages.clear()
    assert answer.body == b"four"


def test_a_proxy_is_gone_through(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    with corporate_proxy() as (place, asked):
        variables = {**environ, "HTTPS_PROXY": f"http://user:pass%20word@{place}"}
        with running(tmp_path, variables) as broker:
            assert broker.ask(service(provider.url), body="{}").status == 200
        assert asked == [(f"localhost:{provider.port}", "Basic dXNlcjpwYXNzIHdvcmQ=")]
        with running(tmp_path, {**variables, "NO_PROXY": "example.org,localhost"}) as broker:
            assert broker.ask(service(provider.url), body="{}").status == 200
        assert len(asked) == 1


def test_the_way_that_belljar_has_of_its_own_is_gone_first(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    with corporate_proxy() as (place, asked):
        variables = {**environ, "HTTPS_PROXY": "http://127.0.0.1:1", "BELLJAR_UPSTREAM_PROXY": f"http://{place}"}
        with running(tmp_path, {**variables, "NO_PROXY": "localhost"}) as broker:
            assert broker.ask(service(provider.url), body="{}").status == 200
        assert len(asked) == 1
        with running(tmp_path, {**variables, "BELLJAR_NO_PROXY": "localhost"}) as broker:
            assert broker.ask(service(provider.url), body="{}").status == 200
        assert len(asked) == 1


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_plain_http_to_this_machine_goes_through_no_proxy(environ: dict[str, str], tmp_path: Path, name: str):
    """A proxy would be shown the key, which is in the clear there."""
    with StandIn() as proxy, StandIn() as plain, running(tmp_path, {**environ, name: proxy.url}) as broker:
        for host in ("localhost", "127.0.0.1"):
            assert broker.ask(service(plain.url.replace("localhost", host)), body="{}").status == 200
        assert KEY.encode() in plain.raw
        assert not proxy.raw


def test_a_proxy_that_refuses_is_told_of(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    before = len(provider.raw)
    with corporate_proxy(refuses=True) as (place, asked):
        with running(tmp_path, {**environ, "HTTPS_PROXY": f"http://user:password@{place}"}) as broker:
            answer = broker.ask(service(provider.url), body="{}")
        assert len(asked) == 1
    assert answer.status == 502
    assert "proxy on the way to localhost refuses: 403" in answer.json["error"]["message"]
    assert "password" not in answer.body.decode()
    assert len(provider.raw) == before


def test_a_proxy_that_is_none_is_told_of(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    with running(tmp_path, {**environ, "HTTPS_PROXY": "socks5://user:password@x"}) as broker:
        answer = broker.ask(service(provider.url), body="{}")
    assert (answer.status, "HTTPS_PROXY is not the URL" in answer.json["error"]["message"]) == (502, True)
    assert "password" not in answer.body.decode()


def test_the_key_goes_to_the_provider_and_nowhere_else(provider: StandIn, environ: dict[str, str], tmp_path: Path):
    """Everything that comes out of a broker is looked at: answers, events, its own output and its files."""
    impostor = StandIn()
    with running(tmp_path, environ) as broker, impostor:
        out = b""
        targets = [provider.url, impostor.url.replace("http:", "https:"), "https://localhost:1", "https://x.invalid"]
        for url in targets:
            for used in (
                service(url),
                service(url, budget=Budget(requests=1)),
                service(url, header=(("x-api-key", "${ANTHROPIC_API_KEY}"), ("bad name", "${ANTHROPIC_API_KEY}"))),
            ):
                out += broker.raw(used, ASK.replace(b"Content", b"Connection: close\r\nContent"))
        for attack in ATTACKS.values():
            out += broker.raw(service(provider.url), attack)
        with broker.connect(service(provider.url)) as connection:
            connection.sendall(b"x" * 100_000)
            out += drain(connection)
    with socket.socket(fileno=broker.events.detach()) if broker.events.fileno() >= 0 else socket.socket():
        pass
    out += broker.output + broker.lines
    for path in broker.state.iterdir():
        out += path.read_bytes()
    assert KEY.encode() in bytes(provider.raw)
    assert KEY.encode() not in out
    assert b"Traceback" not in out
    assert b"internal error" not in out
    assert KEY.encode() not in bytes(impostor.raw)
