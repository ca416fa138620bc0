"""Sandboxes that take as much of a broker as they can get.

They run as `python -m bench.brokerhogs KIND SOCKET CERTIFICATE`. Each has a provider of its own, so that the
neighbour's is not kept busy; prints a line when it is at work; and is at it until its standard input ends.
"""

import asyncio
import json
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

from belljar.broker import preamble
from belljar.policy.services import Budget
from tests.broker.running import service
from tests.broker.standin import Call, StandIn

_CHUNKS = b"1\r\nx\r\n" * 10_000
_NUMBERS = b'{"messages": [' + b",".join([b"9" * 4299] * 7000) + b"]}"
_NESTED = b'{"model": "m", "messages": [' + b",".join([b'{"role": "user", "content": []}'] * 150_000) + b"]}"
_TEXT = b'{"model": "m", "messages": [{"role": "user", "content": "' + b"\\u0041" * 5_000_000 + b'"}]}'
_POST = "POST {path} HTTP/1.1\r\nHost: {name}.belljar.internal\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
_UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Hog(NamedTuple):
    """What it sends, again and again, on how many connections of how many sandboxes."""

    opening: bytes
    data: bytes = b""
    path: str = "/v1/messages"
    name: str = "anthropic"
    connections: int = 32
    sandboxes: int = 1
    refuse_tools: bool = False
    budget: Budget = Budget()
    stays: bool = True
    """Whether a connection is used for more than one opening."""


def _whole(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


KINDS = {
    "one-byte chunks": Hog(_CHUNKED, _CHUNKS),
    "one-byte chunks to a path that is refused": Hog(_CHUNKED, _CHUNKS, path="/v1/files"),
    "one-byte chunks that are judged": Hog(_CHUNKED + b'1\r\n"\r\n', _CHUNKS, refuse_tools=True),
    "heads of short lines": Hog(b"a:\r\n" * 120 + b"\r\n", path="/v1/files"),
    "connections": Hog(b"\r\n", path="/v1/files", connections=64, stays=False),
    "numbers of 4,299 digits": Hog(_whole(_NUMBERS), refuse_tools=True, connections=8),
    "four sandboxes that fill the budget of bodies": Hog(_whole(_TEXT), sandboxes=4, refuse_tools=True),
    "bodies of many values": Hog(_whole(_NESTED), refuse_tools=True, connections=8),
    "answers in one-byte records": Hog(_whole(b"{}"), path="/v1/records", connections=8),
    "answers in one-byte chunks": Hog(_whole(b"{}"), path="/v1/chunks", connections=8),
    "events that are searched for usage": Hog(
        _whole(b'{"model": "m", "stream": true, "messages": []}'),
        path="/v1/chat/completions",
        name="openai",
        connections=8,
        budget=Budget(output_tokens=10**15, requests=10**15),
    ),
    "WebSocket relays": Hog(b"", b"x" * 100, path="/v1/socket"),
}


async def _records(call: Call) -> None:
    """Answer in records of one byte: each write that is drained is one."""
    await call.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    tls = call.writer.transport
    while True:
        await call.send(b"1000\r\n")
        for _ in range(0x1000):
            tls.write(b"[")
        await call.send(b"\r\n")


async def _chunks(call: Call) -> None:
    await call.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        await call.send(_CHUNKS)


async def _events(call: Call) -> None:
    await call.stream()
    while True:
        await call.chunk(b'data: {"usage"\n\n' * 1000)


async def _echo(call: Call) -> None:
    await call.send(b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n")
    while True:
        await call.send(b"y" * 100)
        with suppress(TimeoutError):
            await asyncio.wait_for(call.reader.read(65536), 0.001)


class _Nothing:
    """Takes bytes, and keeps none."""

    def __iadd__(self, _: bytes) -> Self:
        return self


class _Provider(StandIn):
    """A provider that does not remember what it was sent."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(context)
        self.raw = _Nothing()  # type: ignore[assignment]

    def _note(self, change: Callable[[], None]) -> None:
        pass


def _send_for_ever(hog: Hog, connect: Callable[[], socket.socket], head: bytes) -> None:
    while True:
        with suppress(OSError), connect() as sock:
            if not hog.stays:
                sock.sendall(head + hog.opening)
                sock.recv(1)
                continue
            threading.Thread(target=_drain, args=(sock,), daemon=True).start()
            while True:
                sock.sendall(head + hog.opening)
                while hog.data:
                    sock.sendall(hog.data)


def _drain(sock: socket.socket) -> None:
    with suppress(OSError):
        while sock.recv(1 << 16):
            pass


def main() -> None:
    """Be the hog that the command line names."""
    kind, path, certificate = sys.argv[1:]
    hog = KINDS[kind]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    # It shares a core with the neighbour and both providers, and must not delay these: threads inherit it.
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with _Provider(context) as provider:
        provider.pages |= {"/v1/records": _records, "/v1/chunks": _chunks, "/v1/chat/completions": _events}
        provider.pages["/v1/socket"] = _echo
        if hog.path == "/v1/socket":
            rule, head = "GET /v1/socket", f"GET /v1/socket HTTP/1.1\r\nHost: {hog.name}.belljar.internal\r\n".encode()
            hog = hog._replace(opening=_UPGRADE)
        else:
            rule, head = f"POST {hog.path}", _POST.format(path=hog.path, name=hog.name).encode()
        rules = ("POST /v1/other",) if hog.path == "/v1/files" else (rule,)
        used = service(provider.url, hog.name, paths=rules, budget=hog.budget)
        used = used._replace(target=provider.url)
        for number in range(hog.sandboxes):
            opening = preamble.write(f"hog-{number}", used, refuse_tools=hog.refuse_tools)

            def connect(opening: bytes = opening) -> socket.socket:
                sock = socket.socket(socket.AF_UNIX)
                sock.connect(path)
                sock.sendall(opening)
                return sock

            for _ in range(hog.connections):
                threading.Thread(target=_send_for_ever, args=(hog, connect, head), daemon=True).start()
        print(json.dumps(kind), flush=True)
        sys.stdin.read()
        os._exit(0)


if __name__ == "__main__":
    main()
