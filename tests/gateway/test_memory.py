"""What a gateway process holds: thousands of idle flows in little memory, and nothing at all of those that are over."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from belljar.gateway.settings import Settings
from belljar.gateway.workers.supervisor import Workers
from tests.gateway.serving import RESOLVER, eventually, resolved
from tests.gateway.test_metrics import read_exposition
from tests.universe import Sandbox, addresses

IDLE_FLOWS = 5000
BYTES_PER_FLOW = 32 << 10
PORTS = [6100, 6101]
"""Nobody accepts there; a listener's queue holds 4096 connections."""

POLICY = "mode: block-all\negress: {allowed_domains: ['plain.test:7', 'plain.test:6100', 'plain.test:6101']}"


@pytest.fixture
def many_descriptors():
    """As many descriptors as this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 4 * IDLE_FLOWS:
        pytest.skip(f"needs {4 * IDLE_FLOWS} descriptors, and the limit is {hard}: see `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def live_flows(workers: Workers) -> float:
    return sum(value for (name, _), value in read_exposition(workers.metrics()).items() if name == "belljar_flows_live")


@pytest.fixture
def workers(universe):
    """A gateway in a process of its own."""
    with universe.in_gateway(lambda: Workers(1, Settings(resolvers=(RESOLVER,)))) as workers:
        yield workers


def echoes(sandbox: Sandbox) -> None:
    """Check that a new connection works."""
    with sandbox.connect("plain.test", addresses.ECHO) as client:
        client.sendall(b"hello\n")
        assert client.recv(99) == b"hello\n"


def test_thousands_of_idle_flows_take_little_memory(universe, workers, many_descriptors):
    with universe.sandbox() as sandbox, ExitStack() as stack:
        workers.open("idle", resolved(POLICY), sandbox.listeners)
        for port in PORTS:
            stack.enter_context(universe.internet.call(socket.create_server, ("", port), backlog=4096))
        echoes(sandbox)
        [pid] = workers.pids()
        before = resident_bytes(pid)
        address = sandbox.look_up("plain.test")[0]

        def fill() -> None:
            for number in range(IDLE_FLOWS):
                client = stack.enter_context(socket.create_connection((address, PORTS[number % 2])))
                if number % 4 < 2:  # half of them are idle after their first bytes, half have said nothing yet
                    client.sendall(b"\0hello")

        sandbox.call(fill)
        eventually(lambda: live_flows(workers) == IDLE_FLOWS, every=0.1)  # to be asked comes before all other work
        assert (resident_bytes(pid) - before) / IDLE_FLOWS <= BYTES_PER_FLOW
        echoes(sandbox)
        stack.close()
        eventually(lambda: live_flows(workers) == 0, every=0.1)
        workers.close("idle")


def test_a_process_without_descriptors_goes_on_when_there_are_some(universe, workers):
    """Connections wait meanwhile; those that are open are left alone."""
    with universe.sandbox() as sandbox, universe.sandbox() as other:
        workers.open("one", resolved(POLICY), sandbox.listeners)
        workers.open("other", resolved(POLICY), other.listeners)
        [pid] = workers.pids()
        address = other.look_up("plain.test")[0]
        with other.connect(address, addresses.ECHO) as open_flow:
            open_flow.sendall(b"before\n")
            assert open_flow.recv(99) == b"before\n"
            most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (8, most[1]))
            with other.connect(address, addresses.ECHO) as waiting:
                waiting.sendall(b"waiting\n")
                eventually(lambda: 'limit="descriptors"' in workers.metrics())
                open_flow.sendall(b"meanwhile\n")
                assert open_flow.recv(99) == b"meanwhile\n"
                resource.prlimit(pid, resource.RLIMIT_NOFILE, most)
                assert waiting.recv(99) == b"waiting\n"
        echoes(sandbox)
        workers.close("one")
        workers.close("other")
