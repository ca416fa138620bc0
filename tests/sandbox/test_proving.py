"""The first probe notices whatever is wrong with a seal."""

import socket
from dataclasses import replace

import pytest

from belljar.linux import loopback, programs
from belljar.linux.namespaces import NetworkNamespace
from belljar.sandbox.arming import arm
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
