"""The first probe notices whatever is wrong with a seal."""

import socket
from dataclasses import replace

import pytest

from belljar.linux import programs
from belljar.linux.namespaces import NetworkNamespace
from belljar.sandbox.arming import arm
from belljar.sandbox.proving import ProofError, check_alone, prove

FLUSH = ("nft", "flush", "ruleset")
OPEN_UDP = ("nft", "insert", "rule", "inet", "belljar", "seal", "meta", "l4proto", "udp", "accept")
NO_DNS = ("nft", "delete", "chain", "inet", "belljar", "to_gateway")
ELSEWHERE = ("nft", "insert", "rule", "inet", "belljar", "to_gateway", "meta", "l4proto", "tcp", "redirect", "to", ":1")
DOWN = ("ip", "link", "set", "lo", "down")


@pytest.fixture
def namespace(privileged):
    with NetworkNamespace.create() as namespace:
        yield namespace


@pytest.fixture(params=[False, True], ids=["tcp", "udp"])
def armed(request, namespace):
    listeners = arm(namespace, udp=request.param)
    yield listeners
    listeners.close()


def test_a_seal_that_holds(namespace, armed):
    for _ in range(3):  # and nothing is left of it that would be in the way
        namespace.run(lambda: prove(armed))
    for listener in (*armed.tcp, *armed.dns_udp, *armed.udp):
        with pytest.raises(BlockingIOError):
            listener.recv(1) if listener.type == socket.SOCK_DGRAM else listener.accept()


@pytest.mark.parametrize("change", [FLUSH, NO_DNS, ELSEWHERE, DOWN], ids=lambda change: "-".join(change[:3]))
def test_a_seal_that_was_broken(namespace, armed, change, monkeypatch):
    monkeypatch.setattr("belljar.sandbox.proving._SECONDS", 0.1)
    namespace.run(lambda: programs.run(*change))
    with pytest.raises(ProofError):
        namespace.run(lambda: prove(armed))


def test_udp_that_is_not_refused(namespace):
    listeners = arm(namespace, udp=False)
    namespace.run(lambda: programs.run(*OPEN_UDP))
    with pytest.raises(ProofError, match="is not refused"):
        namespace.run(lambda: prove(listeners))
    listeners.close()


def test_doors_of_another_namespace(namespace, armed, monkeypatch):
    monkeypatch.setattr("belljar.sandbox.proving._SECONDS", 0.1)
    with NetworkNamespace.create() as other:
        others = arm(other, udp=bool(armed.udp))
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
