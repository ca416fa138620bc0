"""Under load, with the policy changing all the time, and for long: nothing granted is lost, nothing denied passes,
and nothing stays behind.

The soak takes a few seconds in `make test`; BELLJAR_SOAK_SECONDS=60 makes it longer.
"""

import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from threading import Event

import pytest

from belljar.gateway.sandbox import SandboxState
from belljar.gateway.settings import Settings
from belljar.gateway.workers.supervisor import Workers
from tests.gateway.connections import reset
from tests.gateway.driving import open_descriptors
from tests.gateway.serving import RESOLVER, Serving, eventually, resolved
from tests.universe import Sandbox, addresses

SECONDS = float(os.environ.get("BELLJAR_SOAK_SECONDS", "3"))
CHANGE_EVERY = 0.1
GRANTED = "mode: block-all\negress: {allowed_domains: ['v4.test:7', 'v4.test:80']}"
GRANTED_AND_MORE = "mode: block-all\negress: {allowed_domains: ['v4.test:7', 'v4.test:80', 'other.test:7']}"
PAGE = b"GET /x HTTP/1.1\r\nHost: v4.test\r\n\r\n"
CONNECTIONS = 10_000


def talk_for_ever(connect: Callable[[], socket.socket], stop: Event) -> int:
    """Say something and hear it again, on one connection; return how often."""
    times = 0
    with connect() as client:
        while not stop.is_set():
            client.sendall(b"%d\n" % times)
            assert client.recv(99) == b"%d\n" % times
            times += 1
    return times


def browse_for_ever(connect: Callable[[], socket.socket], stop: Event) -> int:
    """Ask for pages, on one connection; return how often."""
    times = 0
    with connect() as client:
        while not stop.is_set():
            client.sendall(PAGE)
            assert client.recv(9999).endswith(b"v4.test /x\n")
            times += 1
    return times


def come_and_go(connect: Callable[[], socket.socket], stop: Event) -> int:
    """Make one connection after the other; return how many."""
    times = 0
    while not stop.is_set():
        with connect() as client:
            client.sendall(b"hello\n")
            assert client.recv(99) == b"hello\n"
        times += 1
    return times


def knock_in_vain(connect: Callable[[], socket.socket], stop: Event) -> int:
    """Try what is denied; return how often."""
    times = 0
    while not stop.is_set():
        with connect() as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
            assert b" 403 " in client.recv(9999)
        times += 1
    return times


def answers(client: socket.socket) -> bool:
    try:
        client.sendall(b"hello\n")
        return client.recv(99) == b"hello\n"
    except OSError:
        return False


def test_a_policy_that_changes_all_the_time(universe):
    stop, evil = Event(), (addresses.EVIL, addresses.HTTP)
    with (
        universe.in_gateway(lambda: Workers(1, Settings(resolvers=(RESOLVER,)))) as workers,
        universe.sandbox() as sandbox,
    ):
        workers.open("soak", resolved(GRANTED_AND_MORE), sandbox.listeners)
        granted, other = sandbox.look_up("v4.test")[0], sandbox.look_up("other.test")[0]

        def start(work: Callable[[Callable[[], socket.socket], Event], int], where: tuple[str, int]) -> Future[int]:
            begun: Future[int] = sandbox.start(work, lambda: socket.create_connection(where, 10), stop)
            return begun

        load = [start(talk_for_ever, (granted, addresses.ECHO)) for _ in range(4)]
        load += [start(browse_for_ever, (granted, addresses.HTTP)) for _ in range(2)]
        load += [start(come_and_go, (granted, addresses.ECHO)) for _ in range(4)]
        load += [start(knock_in_vain, evil)]
        try:
            _change_all_the_time(workers, sandbox, other)
        finally:
            stop.set()
        assert all(work.result() for work in load)
        workers.close("soak")
    assert addresses.EVIL not in {contact.address for contact in universe.wire.contacts()}


def _change_all_the_time(workers: Workers, sandbox: Sandbox, sometimes: str) -> None:
    """Open and close one destination again and again; each time it is what the acknowledged policy says."""
    ends, generations = time.monotonic() + SECONDS, count(2)
    while time.monotonic() < ends:
        with sandbox.connect(sometimes, addresses.ECHO) as client:
            assert answers(client)
            time.sleep(CHANGE_EVERY)  # this is the rate of changes, and nothing waits for it
            assert workers.change_policy("soak", resolved(GRANTED, next(generations))).flows_cut == 1
            assert not answers(client)
        assert not _reaches(sandbox, sometimes)
        time.sleep(CHANGE_EVERY)
        workers.change_policy("soak", resolved(GRANTED_AND_MORE, next(generations)))


def _reaches(sandbox: Sandbox, address: str) -> bool:
    try:
        with sandbox.connect(address, addresses.ECHO) as client:
            return answers(client)
    except OSError:
        return False


@pytest.mark.long
def test_ten_thousand_connections_leave_nothing_behind(serving, universe):
    """No descriptor, task, pipe, virtual address or flow: whichever way they end."""
    text = "mode: block-all\negress: {allowed_domains: ['plain.test:7', 'plain.test:22']}"
    with serving.sandbox(text) as (sandbox, jar):
        address = sandbox.look_up("plain.test")[0]

        def come_and_go_often(count: int) -> None:
            for number in range(count):
                client = socket.create_connection((address, addresses.SSH), 10)
                assert client.recv(4) == b"SSH-"
                if number % 3 == 0:
                    reset(client)
                else:
                    if number % 3 == 1:
                        client.shutdown(socket.SHUT_WR)
                    client.close()

        sandbox.call(come_and_go_often, 100)
        serving.wait_until_idle(jar)
        before = held(serving, jar)
        sandbox.call(come_and_go_often, CONNECTIONS)
        serving.wait_until_idle(jar)
        eventually(lambda: all(now <= then for now, then in zip(held(serving, jar), before, strict=True)))
        ways = [serving.count(jar, "belljar_flows_closed_total", how=how) for how in ("closed", "failed")]
        assert sum(ways) == CONNECTIONS + 100


def held(serving: Serving, jar: SandboxState) -> tuple[int, ...]:
    """Count what is held, but for the pipes that wait for their next use.

    Of the descriptors, some belong to hosts of the universe that are still hanging up on an earlier test's clients.
    """
    loop = serving.loop

    def count_it() -> tuple[int, ...]:
        in_pipes = 2 * len(serving.gateway._sandboxes[jar.id].pipes._free)
        return (
            open_descriptors() - in_pipes,
            len(loop._watches),
            len(loop._itself.calls),
            jar.buffers.held,
            jar.descriptors.held - in_pipes,
            len(jar.names),
            sum(jar.names._connections.values()),
        )

    return serving.do(count_it)
