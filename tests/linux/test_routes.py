"""Whether an address is the host's own: every kind of route that there is, in a namespace made for it."""

import ctypes
import errno
import os
import socket
import struct
from ipaddress import ip_address

import pytest

from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import run
from belljar.linux.routes import Routes

TCP, UDP = socket.IPPROTO_TCP, socket.IPPROTO_UDP

HOST = """\
link set lo up
link add name left type veth peer name right
link set dev left up
link set dev right up
address add 192.0.2.1/30 dev left
address add 2001:db8:1::1/64 dev left nodad
route add 0.0.0.0/0 via 192.0.2.2
route add ::/0 via 2001:db8:1::2
route add local 198.51.100.128/29 dev lo
route add local 2001:db8:77::/96 dev lo
route add local 2001:db8:78::1/128 dev lo
route add blackhole 203.0.113.1
route add unreachable 203.0.113.2
route add prohibit 203.0.113.3
route add blackhole 2001:db8:2::1
route add unreachable 2001:db8:2::2
route add prohibit 2001:db8:2::3
route add local 198.51.100.200 dev lo table 100
route add local 198.51.100.201 dev lo table 101
route add local 198.51.100.202 dev lo table 102
rule add to 198.51.100.200 lookup 100
rule add ipproto tcp dport 7 lookup 101
rule add from 192.0.2.1 lookup 102
"""


@pytest.fixture(scope="module")
def host(privileged):
    """A host with a network on one side, and routes of every type."""
    with NetworkNamespace.create() as namespace:
        namespace.run(lambda: run("ip", "-batch", "-", text=HOST))
        namespace.run(lambda: run("sysctl", "-q", "-w", "net.ipv6.conf.left.forwarding=1"))
        yield namespace


def is_own(namespace: NetworkNamespace, address: str, protocol: int = TCP, port: int = 80, source: str = "") -> bool:
    def ask() -> bool:
        routes = Routes()
        try:
            return routes.is_own(ip_address(address), protocol, port, ip_address(source).packed if source else b"")
        finally:
            routes.close()

    return namespace.run(ask)


OWN = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.9.9.9",
    "this host": "0.0.0.0",
    "an interface's": "192.0.2.1",
    "an interface's network": "192.0.2.3",  # broadcast
    "everybody": "255.255.255.255",
    "multicast": "224.0.0.251",
    "a local range": "198.51.100.130",
    "a local route by a rule": "198.51.100.200",
    "IPv6 loopback": "::1",
    "an interface's in IPv6": "2001:db8:1::1",
    "the routers of an interface's network": "2001:db8:1::",  # anycast: this host forwards
    "a local range in IPv6": "2001:db8:77::1234",
    "a single local route in IPv6": "2001:db8:78::1",
    "multicast in IPv6": "ff0e::1",
}
OTHERS = {
    "a neighbour": "192.0.2.2",
    "the internet": "203.0.113.9",
    "beside a local range": "198.51.100.136",
    "a neighbour in IPv6": "2001:db8:1::2",
    "the internet in IPv6": "2001:db8:9::9",
    "beside a local range in IPv6": "2001:db8:77::1:0:0",
}
NOWHERE = ["203.0.113.1", "203.0.113.2", "203.0.113.3", "2001:db8:2::1", "2001:db8:2::2", "2001:db8:2::3"]


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("address", OWN.values(), ids=OWN.keys())
def test_own_addresses(host, address, protocol):
    assert is_own(host, address, protocol)


@pytest.mark.parametrize("protocol", [TCP, UDP])
@pytest.mark.parametrize("address", [*OTHERS.values(), *NOWHERE], ids=[*OTHERS.keys(), *NOWHERE])
def test_other_addresses(host, address, protocol):
    assert not is_own(host, address, protocol)


@pytest.mark.parametrize("address", NOWHERE)
def test_what_leads_nowhere_cannot_be_dialled_either(host, address):
    def dial() -> None:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as client:
            client.connect((address, 80))

    with pytest.raises(OSError) as failed:
        host.run(dial)
    assert failed.value.errno in (errno.EINVAL, errno.EACCES, errno.EHOSTUNREACH, errno.ENETUNREACH)


def test_a_rule_for_a_protocol_and_a_port(host):
    assert is_own(host, "198.51.100.201", TCP, 7)
    assert not is_own(host, "198.51.100.201", TCP, 8)
    assert not is_own(host, "198.51.100.201", UDP, 7)


def test_a_rule_for_a_source(host):
    """The kernel chooses a source by a first look-up, and looks again with it; that is what a connection follows."""
    assert is_own(host, "198.51.100.202", source="192.0.2.1")
    assert not is_own(host, "203.0.113.9", source="192.0.2.1")
    assert not is_own(host, "2001:db8:9::9", source="2001:db8:1::1")


def test_nothing_is_remembered(host):
    """One socket, and an address that comes and goes."""

    def come_and_go() -> list[bool]:
        routes, answers = Routes(), []
        for change in ("add", "delete", "add", "delete"):
            run("ip", "address", change, "203.0.113.77/32", "dev", "left")
            run("ip", "address", change, "2001:db8:9::77/128", "dev", "left", *(["nodad"] if change == "add" else []))
            while bool(run("ip", "-6", "route", "show", "table", "local", "2001:db8:9::77")) != (change == "add"):
                pass  # the kernel takes its time, and delivers nothing there meanwhile
            answers += [routes.is_own(ip_address(text), TCP, 80) for text in ("203.0.113.77", "2001:db8:9::77")]
        routes.close()
        return answers

    assert host.run(come_and_go) == [True, True, False, False] * 2


def test_without_a_route_nothing_is_own(namespace):
    for address in ("203.0.113.9", "2001:db8::9"):
        assert not is_own(namespace, address)


class TestKernelThatDoesNotSay:
    """Whoever cannot be told must not dial."""

    MESSAGE = "the kernel does not say whether 192.0.2.1 is an address of this host: "

    def test_there_is_no_netlink(self, host):
        def ask() -> None:
            refuse_netlink()
            Routes().is_own(ip_address("192.0.2.1"), TCP, 80)

        with pytest.raises(OSError, match=self.MESSAGE + "Address family not supported by protocol"):
            host.run(ask)  # on a thread of its own, which ends with its filter

    def test_there_is_no_answer(self, host):
        routes = Routes()
        silent, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        routes._socket = silent
        with other, pytest.raises(OSError, match=self.MESSAGE + "Resource temporarily unavailable"):
            routes.is_own(ip_address("192.0.2.1"), TCP, 80)
        routes.close()

    def test_there_is_an_answer_to_something_else(self, host):
        def ask() -> None:
            routes = Routes()
            assert routes.is_own(ip_address("192.0.2.1"), TCP, 80)
            assert routes._socket is not None
            routes._socket.send(struct.pack("=IHHIIBBB5xIHH4s", 36, 26, 1, 77, 0, 2, 32, 0, 0, 8, 1, b"\xcb\0\x71\x09"))
            assert routes.is_own(ip_address("192.0.2.1"), TCP, 80)
            routes.close()

        host.run(ask)


def refuse_netlink() -> None:
    """Have the kernel refuse the calling thread sockets of the family, as the filter of some container does."""
    load, equal, give = 0x20, 0x15, 0x06
    number = {"x86_64": 41, "aarch64": 198}[os.uname().machine]
    program = b"".join(
        struct.pack("=HBBI", *line)
        for line in (
            (load, 0, 0, 0),
            (equal, 0, 3, number),
            (load, 0, 0, 16),
            (equal, 0, 1, socket.AF_NETLINK),
            (give, 0, 0, 0x00050000 | errno.EAFNOSUPPORT),
            (give, 0, 0, 0x7FFF0000),
        )
    )
    text = ctypes.create_string_buffer(program)
    described = struct.pack("HxxxxxxP", 6, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, described, 0, 0) == 0, os.strerror(ctypes.get_errno())  # PR_SET_SECCOMP
