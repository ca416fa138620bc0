"""What goes through a broker, and how."""

import asyncio
import json
import socket

from tests.broker.running import KEY, Running, answer_of, service
from tests.broker.standin import Call, StandIn


def test_the_key_is_added_outside(broker: Running, provider: StandIn):
    answer = broker.ask(service(provider.url), body={"model": "m"}, headers={"x-api-key": "placeholder"})
    seen = provider.seen[-1]
    assert answer.json == {"ok": True}
    assert (seen.method, seen.target, seen.header("x-api-key")) == ("POST", "/v1/messages", KEY)
    assert seen.header("host") == f"localhost:{provider.port}"
    assert seen.header("accept-encoding") == "identity"
    assert json.loads(seen.body) == {"model": "m"}


def test_requests_follow_each_other_on_a_connection(broker: Running, provider: StandIn):
    client = broker.client(service(provider.url))
    before = provider.connections
    for _ in range(3):
        client.request("POST", "/v1/messages", "{}")
        assert answer_of(client).status == 200
    client.close()
    assert provider.connections <= before + 1


def test_a_body_in_chunks_arrives_whole(broker: Running, provider: StandIn):
    client = broker.client(service(provider.url))
    parts = [b"[", b" " * 100_000, b"]"]
    client.request("POST", "/v1/messages", iter(parts), encode_chunked=True, headers={"transfer-encoding": "chunked"})
    assert answer_of(client).status == 200
    client.close()
    assert provider.seen[-1].body == b"".join(parts)


def test_events_are_passed_on_one_by_one(broker: Running, provider: StandIn):
    go_on = asyncio.Event()

    async def page(call: Call) -> None:
        await call.stream()
        await call.event({"n": 1})
        await go_on.wait()
        await call.event({"n": 2})
        await call.chunk(b"")

    provider.pages["/v1/messages"] = page
    try:
        client = broker.client(service(provider.url))
        client.request("POST", "/v1/messages", "{}")
        response = client.getresponse()
        assert response.read1(1000) == b'data: {"n": 1}\n\n'  # while the provider waits for us
        provider._loop.call_soon_threadsafe(go_on.set)
        assert response.read() == b'data: {"n": 2}\n\n'
        client.close()
    finally:
        del provider.pages["/v1/messages"]


def test_an_event_tells_of_a_request_and_of_no_secret(broker: Running, provider: StandIn):
    broker.ask(service(provider.url), "GET", "/v1/models?key=hidden&limit=2", sandbox="told")
    event = broker.event(sandbox="told")
    assert event["path"] == "/v1/models"
    assert (event["status"], event["method"], event["service"]) == (200, "GET", "anthropic")
    assert (event["bytes_up"], event["bytes_down"]) == (0, 12)
    assert event["used"]["requests"] == 1
    assert provider.seen[-1].target == "/v1/models?limit=2"
    assert "hidden" not in json.dumps(event)


def test_a_provider_that_is_not_there_is_told_of(broker: Running):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        answer = broker.ask(service(f"https://localhost:{taken.getsockname()[1]}"), body={})
    assert answer.status == 502
    assert "localhost cannot be reached" in answer.json["error"]["message"]
