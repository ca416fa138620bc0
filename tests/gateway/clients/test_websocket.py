"""A WebSocket, in plain text and with TLS, directly and through the proxies."""

import ssl
import sys
from contextlib import ExitStack

import pytest
from websockets.sync.server import ServerConnection, serve

CLIENT = """
import asyncio, ssl, sys
from websockets.asyncio.client import connect

async def main(url, proxy, authority):
    context = ssl.create_default_context(cafile=authority) if url.startswith("wss:") else None
    async with connect(url, proxy=proxy or None, ssl=context) as websocket:
        print(await websocket.recv())
        for message in ("text", b"bytes" * 20_000):
            await websocket.send(message)
            print(await websocket.recv() == message)
        await (await websocket.ping())
    print(websocket.close_code)

asyncio.run(main(*sys.argv[1:]))
"""
"""Receives a greeting, has messages and a ping sent back, and closes properly.

It has one thread. With two, as the synchronous client has, OpenSSL fails now and then if a session ticket is read while
the first message is written.
"""


def greet_and_echo(websocket: ServerConnection) -> None:
    assert websocket.request is not None
    websocket.send(f"Welcome to {websocket.request.path}")
    for message in websocket:
        websocket.send(message)


@pytest.fixture(scope="module")
def server(machine, whole_universe):
    certificate, internet = machine.home / "websocket.pem", whole_universe.internet
    whole_universe.certificates.write(certificate, "web.machine.test", "other.machine.test")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    with ExitStack() as stack:
        for port, tls in {80: None, 443: context}.items():
            running = internet.call(serve, greet_and_echo, "0.0.0.0", machine.lead(port), ssl=tls)
            internet.start(running.serve_forever)
            stack.callback(running.shutdown)
        yield


@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:3128"])
@pytest.mark.parametrize(("scheme", "port"), [("ws", 80), ("wss", 443)])
def test_websocket(server, enter, universe, scheme, port, proxy):
    def client(host: str) -> list[str]:
        authority = str(universe.certificates.path)
        return [sys.executable, "-c", CLIENT, f"{scheme}://{host}/chat?room=1", proxy, authority]

    inside = enter(f"web.machine.test:{port}")
    said = inside.works(*client("web.machine.test"))
    assert said.splitlines() == ["Welcome to /chat?room=1", "True", "True", "1000"]
    assert inside.has_reached(port)

    inside.is_denied(*client("other.machine.test"))
