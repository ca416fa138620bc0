"""What a sandbox has attempted by the time it is closed is reported, and none of it gets out."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event
from typing import Any

import dns.message
import pytest

from belljar.gateway import closing
from belljar.gateway.audit.events import AuditLost, DnsDenied, FlowAllowed, FlowClosed, FlowDenied, SandboxClosed
from belljar.gateway.audit.log import open_log
from belljar.gateway.audit.observing import Observer
from belljar.gateway.audit.reading import read_event
from belljar.gateway.limits import Limits
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.workers.supervisor import Workers
from tests.gateway.serving import PATIENCE, eventually, policy, resolved
from tests.universe import Sandbox, addresses

POLICY = """
mode: block-all
egress: {allowed_domains: [plain.test, "plain.test:7"]}
"""
MANY = 100
PORTS = [*range(1001, 1001 + MANY)]


class Record(list[Any]):
    """The events of one sandbox, in their order."""

    def write(self, _sandbox: str | None, event: Any) -> bool:
        self.append(event)
        return True

    def of(self, kind: type) -> list[Any]:
        return [event for event in self if isinstance(event, kind)]

    def denied(self) -> list[tuple[str | None, int | None]]:
        return [(event.name or event.addresses[0], event.port) for event in self.of(FlowDenied)]


class Opened:
    """A sandbox that is served until it is closed."""

    def __init__(self, serving, sandbox: Sandbox, text: str, limits: Limits) -> None:
        self.serving, self.sandbox, self.record = serving, sandbox, Record()
        self.jar = SandboxState("last", policy(text), Observer("last", audit=self.record), limits)
        serving.do(lambda: serving.gateway.open(self.jar, sandbox.listeners))
        self.granted = sandbox.look_up("plain.test")[0]

    def settle(self) -> None:
        """Wait until no connection is left, and forget what was recorded."""
        eventually(lambda: self.serving.do(lambda: not self.jar.connections))
        self.record.clear()

    def close(self, attempt: Callable[[], object] = lambda: None) -> Record:
        """Attempt something while the gateway is busy, and close the sandbox before the gateway can serve it."""
        closed = Event()
        self.serving.do(lambda: (attempt(), self.serving.gateway.close("last", on_closed=closed.set)))
        assert closed.wait(PATIENCE)
        assert isinstance(self.record[-1], SandboxClosed)
        return self.record


@pytest.fixture
def opened(serving, universe) -> Iterator[Callable[..., Opened]]:
    with ExitStack() as stack:
        yield lambda text=POLICY, **limits: Opened(
            serving, stack.enter_context(universe.sandbox()), text, Limits(**limits)
        )


@contextmanager
def said(sandbox: Sandbox, host: str, port: int, data: bytes = b"") -> Iterator[socket.socket]:
    with sandbox.connect(host, port) as client:
        client.sendall(data)
        yield client


def say(sandbox: Sandbox, host: str, port: int, data: bytes = b"") -> None:
    with said(sandbox, host, port, data):
        pass


def get(name: str, target: str = "/") -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode()


def connect_by_socks(name: str) -> bytes:
    return b"\5\1\0" + b"\5\1\0\3" + bytes([len(name)]) + name.encode() + (80).to_bytes(2, "big")


def test_a_last_burst_is_reported_whole_and_in_its_order(opened):
    last = opened()

    def burst() -> None:
        for port in PORTS:
            say(last.sandbox, addresses.EVIL, port)
        say(last.sandbox, addresses.EVIL_V6, 443)
        say(last.sandbox, "127.0.0.1", 1080, connect_by_socks("socks.test"))
        say(last.sandbox, "127.0.0.1", 3128, get("proxy.test", "http://proxy.test/"))
        say(last.sandbox, addresses.EVIL, 80, get("http.test"))

    record = last.close(burst)
    numbered = [port for host, port in record.denied() if host == addresses.EVIL]
    assert numbered == PORTS
    others = [where for where in record.denied() if where[0] != addresses.EVIL]
    assert sorted(others) == [
        (addresses.EVIL_V6, 443),
        ("http.test", 80),
        ("proxy.test", 80),
        ("socks.test", 80),
    ]
    assert not record.of(AuditLost)


def test_questions_and_datagrams_of_a_last_burst_are_reported(opened):
    last = opened()

    def burst() -> None:
        with last.sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
            for number in range(MANY):
                question = dns.message.make_query(f"n{number}.evil.test", "A").to_wire()
                client.sendto(question, ("127.0.0.1", 53))
            client.sendto(b"denied", (addresses.EVIL, 7))
        framed = dns.message.make_query("tcp.evil.test", "A").to_wire(prepend_length=True)
        say(last.sandbox, "127.0.0.1", 53, framed)

    record = last.close(burst)
    names = [event.name for event in record.of(DnsDenied) if event.transport == "udp"]
    assert names == [f"n{number}.evil.test" for number in range(MANY)]
    assert [event.name for event in record.of(DnsDenied) if event.transport == "tcp"] == ["tcp.evil.test"]
    assert record.denied() == [(addresses.EVIL, 7)]


def test_what_is_allowed_in_a_last_burst_is_cut_and_leads_nowhere(opened, universe):
    last = opened()
    with last.sandbox.connect(last.granted, addresses.ECHO) as control:
        control.sendall(b"hello")
        assert control.recv(9) == b"hello"
    last.settle()
    universe.forget()

    def burst() -> None:
        say(last.sandbox, last.granted, addresses.ECHO, b"hello")
        say(last.sandbox, "127.0.0.1", 3128, get("plain.test", "http://plain.test/"))

    record = last.close(burst)
    assert sorted((event.name, event.port, event.how) for event in record.of(FlowClosed)) == [
        ("plain.test", addresses.ECHO, "cut"),
        ("plain.test", 80, "cut"),
    ]
    assert not record.of(FlowAllowed)
    assert not record.of(FlowDenied)
    assert (universe.internet.seen, universe.wire.contacts()) == ([], set())


def test_datagrams_that_are_allowed_in_a_last_burst_lead_nowhere(opened, universe):
    last, where = opened("mode: allow-all"), (addresses.PUBLIC, addresses.ECHO)
    with last.sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
        client.sendto(b"hello", where)
        assert client.recv(9) == b"hello"
    universe.forget()
    with last.sandbox.make_socket(kind=socket.SOCK_DGRAM) as client:
        record = last.close(lambda: client.sendto(b"hello", where))
    assert [event.how for event in record.of(FlowClosed)] == ["cut", "cut"]
    assert [event.bytes_up for event in record.of(FlowClosed)] == [5, 0]
    assert universe.wire.contacts() == set()


def test_clients_that_have_said_nothing_yet_are_reported(opened):
    last = opened(handshakes=MANY // 2)
    with ExitStack() as stack:
        for port in PORTS:
            with suppress(ConnectionError):  # half of them are more than are listened to, and are reset
                stack.enter_context(said(last.sandbox, addresses.EVIL, port))
        eventually(lambda: last.serving.do(lambda: len(last.jar.handlers)) == MANY // 2)
        assert sorted(port for _, port in last.close().denied()) == PORTS


def test_attempts_that_are_not_read_in_time_are_counted(opened, monkeypatch):
    monkeypatch.setattr(closing, "DRAIN_SECONDS", 0)
    last = opened()

    def burst() -> None:
        for port in PORTS:
            say(last.sandbox, addresses.EVIL, port)

    record = last.close(burst)
    assert not record.denied()
    assert record.of(AuditLost) == [AuditLost(MANY, "closed")]


def test_a_worker_reports_a_last_burst_before_it_says_that_a_sandbox_is_closed(universe, tmp_path):
    log = open_log(str(tmp_path / "audit.log"))
    workers = universe.in_gateway(lambda: Workers(1, audit=log))
    try:
        with universe.sandbox() as sandbox:
            workers.open("a", resolved(POLICY), sandbox.listeners)
            for port in PORTS:
                say(sandbox, addresses.EVIL, port)
            workers.close("a")
            assert 'sandbox="a"' not in workers.metrics()
    finally:
        workers.shut_down()
        os.close(log)
    events = [read_event(line) for line in (tmp_path / "audit.log").read_bytes().splitlines()]
    assert [event.port for event in events if isinstance(event, FlowDenied)] == PORTS
    assert isinstance(events[-1], SandboxClosed)
