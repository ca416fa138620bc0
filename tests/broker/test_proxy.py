"""`belljar proxy`: the broker by itself."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from tests.broker.running import KEY, Answer, answer_of
from tests.broker.standin import StandIn


class Proxy:
    def __init__(self, process: "subprocess.Popen[str]", line: str) -> None:
        self.process, self.line = process, line
        port = re.search(r"http://127\.0\.0\.1:(\d+) leads to", line)
        assert port, line
        self.port = int(port[1])

    def ask(self, headers: Mapping[str, str], path: str = "/v1/messages", body: str = "{}") -> Answer:
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        client.request("POST", path, body, dict(headers))
        try:
            return answer_of(client)
        finally:
            client.close()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "belljar", "proxy", "--port", "0", *arguments]


@contextmanager
def proxy(environ: dict[str, str], *arguments: str) -> Iterator[Proxy]:
    process = subprocess.Popen(
        command(*arguments),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ANTHROPIC_API_KEY": KEY, **environ},
    )
    assert process.stderr is not None
    try:
        yield Proxy(process, process.stderr.readline())
    finally:
        process.terminate()
        process.stderr.close()
        assert process.wait(60) == 0


def fails(environ: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, env={**os.environ, **environ}, check=False
    )
    assert done.returncode == 125, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_clients_send_the_token_and_the_provider_gets_the_key(provider: StandIn, environ: dict[str, str]):
    with proxy(environ, "--target", provider.url, "--provider", "anthropic") as served:
        assert served.process.stderr is not None
        token = served.process.stderr.readline().rpartition(" ")[2].strip()
        before = len(provider.raw)
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Bearer "}, {"authorization": f"Basic {token}"}):
            answer = served.ask(headers)
            assert (answer.status, answer.json["error"]["type"]) == (401, "authentication_error")
        assert len(provider.raw) == before
        for headers in ({"x-api-key": token}, {"authorization": f"Bearer {token}"}, {"x-goog-api-key": token}):
            assert served.ask(headers).status == 200
            assert provider.seen[-1].header("x-api-key") == KEY
            assert token not in str(provider.seen[-1].headers)
        assert served.ask({"x-api-key": token}, "/v1/complete").status == 403
        searching = json.dumps({"tools": [{"type": "web_search_20250305"}]})
        assert served.ask({"x-api-key": token}, body=searching).status == 403


def test_a_token_is_given_or_left_out(provider: StandIn, environ: dict[str, str], tmp_path):
    token = "a-token-that-is-long-enough"
    (tmp_path / "token").write_text(token + "\n")
    target = ("--target", provider.url, "--provider", "anthropic")
    with proxy({**environ, "BELLJAR_PROXY_TOKEN": token}, *target) as served:
        assert [served.ask({"x-api-key": each}).status for each in (token, "no")] == [200, 401]
    with proxy(environ, *target, "--token-file", str(tmp_path / "token"), "--max-requests", "1") as served:
        assert [served.ask({"x-api-key": token}).status for _ in range(2)] == [200, 429]
    with proxy(environ, *target, "--no-token", "--allow-server-tools") as served:
        before = len(provider.raw)
        assert served.ask({"origin": "https://evil.test"}).status == 403
        for host in (f"evil.test:{served.port}", "127.0.0.1.evil.test", "[", "\xff"):
            assert served.ask({"host": host}).status == 403
        assert len(provider.raw) == before
        for host in (f"localhost:{served.port}", "127.0.0.1", f"[::1]:{served.port}"):
            assert served.ask({"host": host}).status == 200
        assert served.ask({}, body=json.dumps({"tools": [{"type": "web_search_20250305"}]})).status == 200


def test_another_api_is_described(provider: StandIn, environ: dict[str, str]):
    described = ("--header", "X-Key: k-${MY_KEY}", "--path", "POST /api/*", "--no-token")
    with proxy({**environ, "MY_KEY": "mine"}, "--target", f"{provider.url}/api", *described) as served:
        assert served.ask({}, "/api/thing", "plain").status == 200
        assert provider.seen[-1].header("x-key") == "k-mine"
        assert served.ask({}, "/other").status == 403


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--target", "api.anthropic.com"), "write https://HOST"),
        (("--target", "ftp://x"), "write https://HOST"),
        (("--target", "https://user:pass@x"), "write https://HOST"),
        (("--target", "https://unknown.test"), "--provider"),
        (("--target", "https://api.anthropic.com", "--key-env", "UNSET_HERE"), "set the variable UNSET_HERE"),
        (("--target", "https://api.anthropic.com", "--host", "0.0.0.0", "--no-token"), "leave out --no-token"),
        (("--target", "https://api.anthropic.com", "--header", "nonsense"), "--header"),
        (("--target", "https://api.anthropic.com", "--path", "/v1"), "--path"),
        (("--target", "https://api.anthropic.com", "--token-file", "/nonexistent"), "cannot be read"),
        (("--target", "https://api.anthropic.com", "--token-file", "x", "--no-token"), "leave one of them out"),
        (("--target", "https://api.anthropic.com", "--header", "a: b", "--key-env", "K"), "keep one of them"),
        (("--target", "https://api.anthropic.com", "--header", "x-api-key: sk-1"), "could read; write ${NAME}"),
        (("--target", "https://api.anthropic.com", "--header", "x-api-key: $K"), "--header: x-api-key has a $"),
        (("--target", "https://api.anthropic.com", "--key-env", "sk-ant-1"), "--key-env: write the name"),
        (("--target", "http://llm.test", "--provider", "anthropic"), "--target: would send the key in the clear"),
        (("--target", "https://api.anthropic.com", "--max-dollars", "nan"), '"nan" is no number from 0.0001 up'),
        (("--target", "https://api.anthropic.com", "--max-dollars", "0.12345"), "dollars is not an amount"),
        (("--target", "https://api.anthropic.com", "--max-requests", "0"), '"0" is no whole number above 0; write one'),
    ],
)
def test_what_cannot_work_is_told_with_its_remedy(arguments: tuple[str, ...], words: str):
    assert words in fails({"ANTHROPIC_API_KEY": KEY}, *arguments)


def test_a_password_is_not_repeated():
    assert "hush" not in fails({"ANTHROPIC_API_KEY": KEY}, "--target", "https://me:hush@llm.test")


def test_a_port_that_is_taken_is_told_of():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        said = fails({"ANTHROPIC_API_KEY": KEY}, "--target", "https://api.anthropic.com", "--port", port)
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use; choose another with --host" in said


def test_it_ends_in_order_while_a_stream_is_open(provider: StandIn, environ: dict[str, str]):
    async def waiting(call):
        await call.stream()
        await call.chunk(b"data: begun\n\n")
        await call.reader.read(1)

    provider.pages["/v1/messages"] = waiting
    with proxy(environ, "--target", provider.url, "--provider", "anthropic", "--no-token") as served:
        client = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        client.request("POST", "/v1/messages", "{}")
        assert client.getresponse().read1(100)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
        client.close()
    provider.pages.clear()
