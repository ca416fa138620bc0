"""Another protocol on the same connection, where the policy lets it through."""

import base64
import hashlib

from belljar.policy.services import Budget
from tests.broker.running import KEY, Running, drain, service
from tests.broker.standin import Call, StandIn

UPGRADE = (
    b"GET /v1/live HTTP/1.1\r\nHost: anthropic.belljar.internal\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: c2FuZGJveA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-of-the-sandbox\r\n\r\n"
)


async def echoing(call: Call) -> None:
    key = (call.seen.header("sec-websocket-key") or "").encode()
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()).decode()
    await call.send(
        "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\nset-cookie: a=b\r\n"
        f"sec-websocket-accept: {accept}\r\n\r\nhello".encode()
    )
    while data := await call.reader.read(65536):
        await call.send(data.upper())


def test_bytes_go_both_ways_as_they_come(broker: Running, provider: StandIn):
    provider.pages["/v1/live"] = echoing
    used = service(provider.url, paths=("GET /v1/live",))
    with broker.connect(used, "ws", refuse_tools=True) as connection:
        connection.sendall(UPGRADE + b"early")
        received = b""
        while not received.endswith(b"EARLY"):
            received += connection.recv(1000)
        head, _, rest = received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        assert b"sec-websocket-accept" in head
        assert b"set-cookie" not in head
        assert rest == b"helloEARLY"
        connection.sendall(b"more")
        assert connection.recv(4) == b"MORE"
    provider.pages.clear()
    seen = provider.seen[-1]
    assert seen.header("x-api-key") == KEY
    assert seen.header("sec-websocket-protocol") == "realtime"
    event = broker.event(sandbox="ws")
    assert (event["status"], event["bytes_up"], event["bytes_down"]) == (101, 9, 14)


def test_the_providers_end_is_the_clients(broker: Running, provider: StandIn):
    async def ending(call: Call) -> None:
        await call.send(b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
        await call.reader.readexactly(len(b"early"))  # a byte left over would be recorded during the next test
        call.writer.close()

    provider.pages["/v1/live"] = ending
    with broker.connect(service(provider.url, paths=("GET /v1/live",))) as connection:
        connection.sendall(UPGRADE + b"early")
        assert drain(connection).startswith(b"HTTP/1.1 101")
    provider.pages.clear()


def test_it_is_refused_where_it_was_not_meant(broker: Running, provider: StandIn):
    before = len(provider.raw)
    refused = [
        (service(provider.url), False),
        (service(provider.url, paths=("GET /v1/*",)), True),
        (service(provider.url, paths=("GET /v1/live",), budget=Budget(output_tokens=9)), False),
    ]
    for used, refuse_tools in refused:
        with broker.connect(used, refuse_tools=refuse_tools) as connection:
            connection.sendall(UPGRADE)
            assert connection.recv(12) == b"HTTP/1.1 403"
    assert len(provider.raw) == before


def test_a_provider_may_decline(broker: Running, provider: StandIn):
    with broker.connect(service(provider.url, paths=("GET /v1/live",))) as connection:
        connection.sendall(UPGRADE)
        assert connection.recv(12) == b"HTTP/1.1 200"
