"""What a sandbox may try to have sent in its name, or beside its request."""

import pytest

from tests.broker.running import KEY, Running, service
from tests.broker.standin import Call, StandIn

HEAD = b"POST /v1/messages HTTP/1.1\r\nHost: anthropic.belljar.internal\r\nConnection: close\r\n"


def _with(*lines: bytes, body: bytes = b"{}") -> bytes:
    return HEAD + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


@pytest.mark.parametrize(
    "name",
    [
        "authorization", "Authorization", "x-api-key", "X_API_KEY", "api-key", "x-goog-api-key", "cookie", "cookie2",
        "proxy-authorization", "x-amz-security-token", "anthropic-auth-token", "x-forwarded-for", "x-forwarded-host",
        "forwarded", "via", "x-real-ip", "true-client-ip", "x-http-method-override", "x_http_method_override",
        "openai-organization", "openai-project", "x-goog-user-project", "x-original-url", "proxy-connection",
        "keep-alive", "te", "trailer", "expect-ct-token", "x-portkey-custom-host", "helicone-target-url",
        "x-litellm-api-base", "cf-aig-custom-provider", "X-Codex-Auth-Token", "range", "prefer", "x-of-tomorrow",
    ],
)  # fmt: skip
def test_what_speaks_for_others_stays_behind(broker: Running, provider: StandIn, name: str):
    broker.ask(service(provider.url), body="{}", headers={name: "of-the-sandbox", "anthropic-beta": "kept"})
    seen = provider.seen[-1]
    assert "of-the-sandbox" not in str(seen.headers)
    assert seen.header("anthropic-beta") == "kept"
    assert [value for header, value in seen.headers if "api-key" in header] == [KEY]


def test_a_header_that_connection_names_stays_behind(broker: Running, provider: StandIn):
    headers = {"connection": "x-secret-sauce, x-api-key", "x-secret-sauce": "of-the-sandbox"}
    broker.ask(service(provider.url), body="{}", headers=headers)
    assert "of-the-sandbox" not in str(provider.seen[-1].headers)
    assert provider.seen[-1].header("x-api-key") == KEY


def test_what_the_policy_sets_has_no_second_spelling(broker: Running, provider: StandIn):
    used = service(provider.url, header=(("x-api-key", "${ANTHROPIC_API_KEY}"), ("x-team", "blue")))
    broker.ask(used, body="{}", headers={"X_Team": "red", "x-team": "red"})
    assert [value for name, value in provider.seen[-1].headers if "team" in name] == ["blue"]


def test_what_was_judged_is_read_as_it_was_judged(broker: Running, provider: StandIn):
    """Some servers read a body in whichever way a header says, UTF-7 among others."""
    kind = b"Content-Type: application/json; charset=utf-7"
    for more in (b"Content_Encoding: br", b"Content-Encoding: identity"):
        answer = broker.raw(service(provider.url), _with(kind, more, b"Content-Length: 2"), refuse_tools=True)
        assert answer.startswith(b"HTTP/1.1 200 ")
        sent = [header for header in provider.seen[-1].headers if header[0].startswith("content")]
        assert sent == [("content-type", "application/json"), ("content-length", "2")]
    before = len(provider.raw)
    codings = (b"Content-Encoding: identity", b"Content-Encoding: br", b"Content-Length: 2")
    answer = broker.raw(service(provider.url), _with(*codings), refuse_tools=True)
    assert answer.startswith(b"HTTP/1.1 415 ")
    assert len(provider.raw) == before


def test_queries_lose_their_secrets(broker: Running, provider: StandIn):
    query = "beta=true&key=S&KEY=S&%6bey=S&access_token=S&$httpMethod=S&%24httpHeaders=S&alt=sse&oauth_token=S"
    broker.ask(service(provider.url), path=f"/v1/messages?{query}", body="{}")
    assert provider.seen[-1].target == "/v1/messages?beta=true&alt=sse"


SPLIT = b"POST /v1/admin HTTP/1.1\r\nHost: localhost\r\n\r\n"
ATTACKS = {
    "two lengths": _with(b"Content-Length: 2", b"Content-Length: 40", body=b"{}" + SPLIT),
    "length and chunks": _with(b"Content-Length: 6", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SPLIT),
    "chunks and length": _with(b"Transfer-Encoding: chunked", b"Content-Length: 6", body=b"0\r\n\r\n" + SPLIT),
    "chunks twice": _with(b"Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n" + SPLIT),
    "chunks that are none": _with(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + SPLIT),
    "a space before the colon": _with(b"Content-Length : 2", body=b"{}" + SPLIT),
    "a length with a sign": _with(b"Content-Length: +2", body=b"{}" + SPLIT),
    "a NUL in a value": _with(b"X-A: a\0b", b"Content-Length: 2"),
    "a bare CR in a value": _with(b"X-A: a\rX-B: b", b"Content-Length: 2"),
    "a name with a space": _with(b"X A: b", b"Content-Length: 2"),
    "a chunk size that overflows": _with(b"Transfer-Encoding: chunked", body=b"f" * 40 + b"\r\n" + SPLIT),
    "no host": b"POST /v1/messages HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "two hosts": _with(b"Host: localhost", b"Content-Length: 2"),
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a head without an end": b"POST /v1/messages HTTP/1.1\r\nX: " + b"a" * 100_000,
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_no_proper_request_reaches_nobody(broker: Running, provider: StandIn, attack: str):
    used, before = service(provider.url), len(provider.seen)
    answer = broker.raw(used, ATTACKS[attack])
    assert answer[9:12] in {b"400", b"403", b"413", b"414", b"431", b"501"}, answer
    assert len(provider.seen) == before
    assert broker.raw(used, _with(b"Content-Length: 2")).startswith(b"HTTP/1.1 200")
    assert len(provider.seen) == before + 1


@pytest.mark.parametrize(
    "request_bytes",
    [
        _with(b"X-A: a", b" X-Evil: folded", b"Content-Length: 2"),
        _with(b"Content-Length: 2").replace(b"\r\n", b"\n"),
    ],
    ids=["a folded header", "bare line feeds"],
)
def test_what_is_tolerated_is_written_anew(broker: Running, provider: StandIn, request_bytes: bytes):
    before = len(provider.raw)
    answer = broker.raw(service(provider.url), request_bytes)
    sent = bytes(provider.raw[before:])
    assert answer[9:12] in {b"200", b"400"}
    assert b"\r\n " not in sent
    assert sent.replace(b"\r\n", b"").count(b"\n") == 0
    assert sent.lower().count(b"\r\nx-evil") == 0


def test_pipelined_requests_are_answered_in_turn(broker: Running, provider: StandIn):
    first = _with(b"Content-Length: 2").replace(b"Connection: close\r\n", b"")
    refused = first.replace(b"/v1/messages", b"/v1/admin")
    before = len(provider.seen)
    answer = broker.raw(service(provider.url), first + refused + _with(b"Content-Length: 2"))
    assert [part[1:4] for part in answer.split(b"HTTP/1.1")[1:]] == [b"200", b"403", b"200"]
    assert [seen.target for seen in provider.seen[before:]] == ["/v1/messages"] * 2


def test_a_get_has_no_body(broker: Running, provider: StandIn):
    before = len(provider.raw)
    answer = broker.ask(service(provider.url), "GET", "/v1/models", SPLIT)
    assert answer.status == 400
    assert len(provider.raw) == before
    assert broker.ask(service(provider.url), "GET", "/v1/models").status == 200


def test_of_an_answer_cookies_stay_behind(broker: Running, provider: StandIn):
    async def page(call: Call) -> None:
        await call.answer(
            b"{}", 307, "set-cookie: a=b\r\nalt-svc: h3\r\nlocation: https://elsewhere.test/\r\nx-id: 7\r\n"
        )

    provider.pages["/v1/messages"] = page
    before = len(provider.seen)
    answer = broker.ask(service(provider.url), body="{}")
    del provider.pages["/v1/messages"]
    assert answer.status == 307
    assert answer.headers["location"] == "https://elsewhere.test/"  # and nobody has gone there
    assert answer.headers["x-id"] == "7"
    assert not {"set-cookie", "alt-svc"} & set(answer.headers)
    assert len(provider.seen) == before + 1


def test_an_encoded_answer_is_not_decoded(broker: Running, provider: StandIn):
    bomb = b"\x1f\x8b" + b"\0" * 5000

    async def page(call: Call) -> None:
        await call.answer(bomb, headers="content-encoding: gzip\r\n")

    provider.pages["/v1/messages"] = page
    answer = broker.ask(service(provider.url), body="{}")
    del provider.pages["/v1/messages"]
    assert answer.body == bomb
