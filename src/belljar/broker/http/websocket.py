"""What follows when a provider has agreed to another protocol, such as WebSocket: bytes both ways, as they come."""

import asyncio
from collections.abc import Callable
from typing import Final

from httpcore2 import AsyncNetworkStream

from belljar.broker.http.connection import Connection
from belljar.broker.http.headers import Header, first

_CHUNK: Final = 64 << 10
_SILENCE: Final = 3600.0


def wanted(headers: list[Header]) -> bool:
    """Tell whether a request asks for WebSocket."""
    return (first(headers, b"upgrade") or b"").strip().lower() == b"websocket"


def for_upstream(headers: list[Header]) -> list[Header]:
    """Return the headers by which it is asked for; subprotocols that are a key in disguise are left out."""
    found: list[Header] = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    for name, value in headers:
        if name == b"sec-websocket-protocol":
            kept = [each.strip() for each in value.split(b",") if b"key" not in each.lower() and b"." not in each]
            found += [(name, b", ".join(kept))] if kept else []
        elif name.startswith(b"sec-websocket-"):
            found.append((name, value))
    return found


def for_client(headers: list[Header]) -> list[Header]:
    """Return the headers by which it is agreed to."""
    found: list[Header] = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
    return found + [(name.lower(), value) for name, value in headers if name.lower().startswith(b"sec-websocket-")]


async def relay(
    client: Connection, upstream: AsyncNetworkStream, early: bytes, passed: Callable[[int, int], None]
) -> None:
    """Relay until one side ends. `passed` is told how many bytes went up and down."""

    async def up() -> None:
        data = early or await client.receive(_SILENCE)
        while data:
            passed(len(data), 0)
            await upstream.write(data, _SILENCE)
            data = await client.receive(_SILENCE)

    async def down() -> None:
        while data := await upstream.read(_CHUNK, _SILENCE):
            passed(0, len(data))
            await client.reply(data)

    directions = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        await upstream.aclose()
