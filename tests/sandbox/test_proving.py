"""The first probe notices whatever is wrong with a seal."""

import fcntl
import resource
import socket
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from belljar.linux import loopback, programs
from belljar.linux.descriptors import adopt
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.nft import sealed
from belljar.sandbox.arming import arm, arm_here
from belljar.sandbox.proving import ProofError, check_alone, prove

FLUSH = ("nft", "flush", "ruleset")
NO_UDP = ("nft", "flush", "chain", "inet", "belljar", "udp_to_gateway")
NO_DNS = ("nft", "delete", "chain", "inet", "belljar", "to_gateway")
ELSEWHERE = ("nft", "insert", "rule", "inet", "belljar", "to_gateway", "meta", "l4proto", "tcp", "redirect", "to", ":1")
DOWN = ("ip", "link", "set", "lo", "down")


@pytest.fixture
def namespace(privileged):
    with NetworkNamespace.create() as namespace:
        yield namespace


@pytest.fixture
def armed(namespace):
    listeners = arm(namespace)
    yield listeners
    listeners.close()


def test_a_seal_that_holds(namespace, armed):
    for _ in range(3):  # and nothing is left of it that would be in the way
        namespace.run(lambda: prove(armed))
    for listener in (*armed.tcp, *armed.dns_udp, *armed.udp):
        with pytest.raises(BlockingIOError):
            listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()


@pytest.mark.parametrize("change", [FLUSH, NO_DNS, NO_UDP, ELSEWHERE, DOWN], ids=lambda change: "-".join(change[:3]))
def test_a_seal_that_was_broken(namespace, armed, change, monkeypatch):
    monkeypatch.setattr("belljar.sandbox.proving._SECONDS", 0.1)
    namespace.run(lambda: programs.run(*change))
    with pytest.raises(ProofError):
        namespace.run(lambda: prove(armed))


@pytest.mark.parametrize("change", [NO_DNS, NO_UDP], ids=lambda change: "-".join(change[1:]))
def test_arming_is_refused_where_a_packet_does_not_arrive(namespace, change, monkeypatch):
    monkeypatch.setattr("belljar.sandbox.proving._SECONDS", 0.1)
    bring_up = loopback.bring_up

    def spoil():
        bring_up()
        programs.run(*change)

    monkeypatch.setattr(loopback, "bring_up", spoil)
    with pytest.raises(ProofError):
        arm(namespace)
    monkeypatch.undo()
    arm(namespace).close()  # nothing of it is in the way


def test_doors_of_another_namespace(namespace, armed, monkeypatch):
    monkeypatch.setattr("belljar.sandbox.proving._SECONDS", 0.1)
    with NetworkNamespace.create() as other:
        others = arm(other)
        with pytest.raises(ProofError):
            namespace.run(lambda: prove(replace(armed, tcp=others.tcp)))
        others.close()


def test_an_interface_beside_loopback(namespace):
    namespace.run(check_alone)
    namespace.run(lambda: programs.run("ip", "link", "add", "out", "type", "veth", "peer", "name", "back"))
    namespace.run(check_alone)  # one that is down leads nowhere
    namespace.run(lambda: programs.run("ip", "link", "set", "out", "up"))
    with pytest.raises(ProofError, match="out"):
        namespace.run(check_alone)


def test_an_agent_that_never_stops_sending(namespace, armed, monkeypatch):
    """What it sends is not waited for beyond the time that a proof may take, however much of it there is."""
    namespace.run(lambda: programs.run(*NO_UDP))

    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
            for _ in range(20):
                agent.sendto(b"belljar: first probe", ("127.0.0.1", sealed.UDP_PORT))

    namespace.run(send)
    seconds = count()
    monkeypatch.setattr("belljar.sandbox.proving.time.monotonic", lambda: float(next(seconds)))
    with pytest.raises(ProofError):
        namespace.run(lambda: prove(armed))
    assert armed.udp[0].recv(100)


def test_an_agent_that_leaves_no_port_to_send_from(namespace):
    def take_all_ports():
        Path("/proc/sys/net/ipv4/ip_local_port_range").write_text("40000 40003")
        programs.run("ip", "link", "set", "lo", "up")
        for port in range(40000, 40004):
            taken.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)).bind(("0.0.0.0", port))

    with ExitStack() as taken:
        namespace.run(take_all_ports)
        with pytest.raises(ProofError, match="cannot be tried"):
            namespace.run(arm_here)
    namespace.run(arm_here).close()  # and nothing is left in the way


def test_doors_of_a_process_that_has_many(namespace, armed):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    try:
        groups = {
            name: tuple(adopt(fcntl.fcntl(door, fcntl.F_DUPFD_CLOEXEC, 2000)) for door in doors)
            for name, doors in armed.groups().items()
        }
        many = replace(armed, **groups)
        namespace.run(lambda: prove(many))
        many.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
