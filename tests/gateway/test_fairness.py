"""One sandbox does its worst, and another is served all the same. How soon is for `make bench` to say."""

import socket
from contextlib import ExitStack

import dns.rcode
import pytest

from belljar.gateway.sandbox import SandboxState
from tests.gateway.serving import Serving, eventually
from tests.universe import Sandbox, addresses
from tests.universe.clients import fetch
from tests.universe.hogs import hogging

POLICY = """
mode: block-all
egress: {allowed_domains: [plain.test, "plain.test:7", "plain.test:19", "plain.test:6001"]}
"""
NEXT_POLICY = """
mode: block-all
egress: {allowed_domains: [plain.test]}
"""
ALLOW_ALL = "mode: allow-all"

HOGS = {
    "requests for encryption": ("plain.test", addresses.SILENT, ""),
    "one-byte chunks": ("plain.test", addresses.SILENT, f"plain.test:{addresses.SILENT}"),
    "one-byte records": (addresses.EVIL, addresses.HTTPS, ""),
    "one-byte segments": (addresses.EVIL, addresses.HTTPS, ""),
    "connections": ("plain.test", addresses.SILENT, ""),
    "questions": ("127.0.0.1", addresses.DNS, "plain.test"),
    "datagrams": ("plain.test", addresses.DISCARD, ""),
    "denied datagrams": (addresses.EVIL, addresses.HTTPS, ""),
    "downloads": ("plain.test", addresses.STREAM, b"go on\n".hex()),
}


@pytest.mark.parametrize("kind", HOGS)
def test_a_neighbour_is_served_whatever_a_sandbox_does(serving, universe, kind):
    host, port, said = HOGS[kind]
    with (
        serving.sandbox(ALLOW_ALL if kind == "datagrams" else POLICY) as (greedy, jar),
        serving.sandbox(POLICY) as (neighbour, neighbours_jar),
        neighbour.connect("plain.test", addresses.ECHO) as to_be_cut,
    ):
        to_be_cut.sendall(b"x")
        assert to_be_cut.recv(1) == b"x"
        address = greedy.look_up(host)[0] if host.endswith(".test") else host
        with hogging(greedy, kind, address, port, said):
            used = cpu_seconds(serving, jar)
            eventually(lambda: cpu_seconds(serving, jar) > used + 0.05)
            for _ in range(5):
                assert neighbour.resolve("plain.test").rcode() == dns.rcode.NOERROR
                with neighbour.connect("plain.test", addresses.HTTP) as client:
                    assert " 200 " in fetch(client, "/", "plain.test")[0]
            assert serving.change_policy(neighbours_jar, NEXT_POLICY) == 1
            used = cpu_seconds(serving, jar)
            eventually(lambda: cpu_seconds(serving, jar) > used)
        assert cpu_seconds(serving, neighbours_jar) < cpu_seconds(serving, jar)


def cpu_seconds(serving: Serving, jar: SandboxState) -> float:
    """Return what a sandbox has cost, as Prometheus reads it."""
    wanted = f'belljar_cpu_seconds_total{{sandbox="{jar.id}"}} '
    lines = serving.do(serving.metrics.render).splitlines()
    return next(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


def test_no_client_asks_for_the_same_encryption_twice(serving, universe):
    """What a tolerant server behind it might still take for a hello, with any name, does not get there."""
    with serving.sandbox(POLICY) as (sandbox, jar), sandbox.connect("plain.test", addresses.ECHO) as client:
        request = bytes.fromhex("0000000804d2162f")
        client.sendall(request)
        assert client.recv(8) == request
        client.sendall(request)
        assert rest_of(client) == b"", "an echo would show what has reached the server"
        assert (
            serving.count(jar, "belljar_flows_total", protocol="tcp", result="denied", reason="protocol_refused") == 1
        )


class TestMemory:
    """What is kept of unfinished sentences is charged to the sandbox, and not kept for long."""

    HALF_A_HEAD = b"GET / HTTP/1.1\r\nHost: plain.test\r\nX: " + bytes([65]) * 20_000

    def kept_alive(self, stack: ExitStack, sandbox: Sandbox, count: int) -> list[socket.socket]:
        address = sandbox.look_up("plain.test")[0]
        clients = [stack.enter_context(sandbox.connect(address, addresses.HTTP)) for _ in range(count)]
        for client in clients:
            get(client)
        return clients

    def test_half_heads_are_charged_and_end_and_nobody_else_does(self, serving, universe):
        with serving.sandbox(POLICY, first_bytes_seconds=1.0) as (sandbox, jar), ExitStack() as stack:
            *greedy, idle, uploading = self.kept_alive(stack, sandbox, 102)
            uploading.sendall(b"POST /echo HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 4\r\n\r\nab")
            assert serving.do(lambda: jar.buffers.held) < 100_000
            for client in greedy:
                client.sendall(self.HALF_A_HEAD)
            eventually(lambda: serving.do(lambda: jar.buffers.held) >= 100 * len(self.HALF_A_HEAD))
            assert all(rest_of(client) == b"" for client in greedy)
            eventually(lambda: serving.do(lambda: (jar.connections, jar.handshakes)) == (2, 0))
            assert serving.do(lambda: jar.buffers.held) < 100_000
            uploading.sendall(b"cd")
            assert uploading.recv(99).startswith(b"HTTP/1.1 200 ")
            get(idle)

    def test_what_is_beyond_the_budget_is_refused(self, serving, universe):
        with serving.sandbox(POLICY, buffered_bytes=1 << 20) as (sandbox, jar), ExitStack() as stack:
            clients = self.kept_alive(stack, sandbox, 60)
            for client in clients:
                client.sendall(self.HALF_A_HEAD)
            eventually(lambda: serving.count(jar, "belljar_limits_reached_total", limit="buffered_bytes") >= 20)
            assert serving.do(lambda: jar.buffers.held) <= (1 << 20) + 60 * 3 * 4096
        eventually(lambda: jar.buffers.held == 0)

    @pytest.mark.parametrize("begun", [b"5", b"5\r\nabcde\r\n5", b"0\r\n\r"], ids=["first", "next", "last"])
    def test_half_a_line_between_chunks_is_not_waited_for(self, serving, universe, begun):
        with serving.sandbox(POLICY, first_bytes_seconds=0.2) as (sandbox, _jar), ExitStack() as stack:
            patient, hasty = self.kept_alive(stack, sandbox, 2)
            for client in (patient, hasty):
                client.sendall(b"POST /echo HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: chunked\r\n\r\n")
            patient.sendall(b"5\r\nab")
            hasty.sendall(begun)
            assert b"200 OK" not in rest_of(hasty)
            patient.sendall(b"cde\r\n0\r\n\r\n")
            assert patient.recv(99).startswith(b"HTTP/1.1 200 ")

    def test_first_words_are_forgotten_once_they_are_passed_on(self, serving, universe):
        with serving.sandbox(POLICY) as (sandbox, jar), ExitStack() as stack:
            address = sandbox.look_up("plain.test")[0]
            for _ in range(20):
                client = stack.enter_context(sandbox.connect(address, addresses.ECHO))
                client.sendall(b"hello " * 500 + b"\n")
                assert client.recv(6) == b"hello "
            eventually(lambda: serving.do(lambda: jar.buffers.held) == 0)
            assert jar.connections == 20


def get(client: socket.socket) -> None:
    """Make a request, and leave the connection open."""
    client.sendall(b"GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n")
    received = b""
    while not received.endswith(b"plain.test /\n"):
        data = client.recv(4096)
        assert data, received
        received += data
    assert received.startswith(b"HTTP/1.1 200 ")


def rest_of(client: socket.socket) -> bytes:
    """Return what comes until the end, however that comes about."""
    received = b""
    try:
        while data := client.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received
