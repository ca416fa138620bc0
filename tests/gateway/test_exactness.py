"""Every byte arrives once and in its order, however the stream is cut and whoever ends first.

A few megabytes in `make test`; with BELLJAR_SOAK_SECONDS set, a gigabyte in both directions.
"""

import hashlib
import os
import random
import socket
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from belljar.gateway.settings import Settings
from belljar.gateway.workers.supervisor import Workers
from tests.gateway.serving import RESOLVER, resolved
from tests.universe import Place

PORT = 6100
POLICY = f"mode: block-all\negress: {{allowed_domains: ['plain.test:{PORT}']}}"
TOTAL = 1 << 30 if "BELLJAR_SOAK_SECONDS" in os.environ else 48 << 20
NOISE = random.Random(0).randbytes(3_000_017)
"""Repeated, this is the stream; its length is a multiple of no buffer's."""

MANNERS = {
    "small pieces": (1 << 10, TOTAL >> 6),
    "any pieces": (1 << 18, TOTAL),
    "large pieces": (1 << 22, TOTAL),
}


def pieces(total: int, largest: int, seed: int) -> Iterator[memoryview]:
    """Cut a stream of so many bytes into pieces of random sizes."""
    noise, sizes, sent = memoryview(NOISE), random.Random(seed), 0
    while sent < total:
        start = sent % len(noise)
        piece = noise[start : start + min(sizes.randint(1, largest), total - sent)]
        yield piece
        sent += len(piece)


def send(sock: socket.socket, total: int, largest: int, seed: int) -> str:
    """Send a stream and its end; return its hash."""
    digest = hashlib.blake2b()
    for piece in pieces(total, largest, seed):
        sock.sendall(piece)
        digest.update(piece)
    sock.shutdown(socket.SHUT_WR)
    return digest.hexdigest()


def receive(sock: socket.socket, largest: int, seed: int) -> str:
    """Receive up to the end, in pieces of random sizes; return the hash."""
    digest, sizes = hashlib.blake2b(), random.Random(seed)
    while piece := sock.recv(sizes.randint(1, largest)):
        digest.update(piece)
    return digest.hexdigest()


def converse(place: Place, sock: socket.socket, total: int, largest: int, seed: int) -> tuple[Future[str], Future[str]]:
    """Send and receive at the same time; return the hashes of what was sent and received."""
    return place.start(send, sock, total, largest, seed), place.start(receive, sock, largest, seed + 1)


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("client_ends_first", [True, False], ids=["client ends first", "server ends first"])
def test_byte_exactness(universe, manner, client_ends_first):
    largest, total = MANNERS[manner]
    longer = total + total // 8
    up, down = (total, longer) if client_ends_first else (longer, total)
    with (
        universe.in_gateway(lambda: Workers(1, Settings(resolvers=(RESOLVER,)))) as workers,
        universe.sandbox() as sandbox,
        universe.internet.call(socket.create_server, ("", PORT)) as listener,
    ):
        workers.open("exact", resolved(POLICY), sandbox.listeners)
        with sandbox.connect("plain.test", PORT) as client, listener.accept()[0] as server:
            client.settimeout(60)
            server.settimeout(60)
            client_sent, client_received = converse(sandbox, client, up, largest, 1)
            server_sent, server_received = converse(universe.internet, server, down, largest, 2)
            assert server_received.result() == client_sent.result()
            assert client_received.result() == server_sent.result()
        workers.close("exact")
