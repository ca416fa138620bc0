"""What a sealed sandbox looks like from inside, and what its listeners see outside."""

import errno
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address

import pytest

from belljar.gateway.io.origin import original_destination
from belljar.gateway.listeners import Listeners
from belljar.linux import loopback, programs, transparent
from belljar.linux.descriptors import receive_sockets, send_sockets
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.nft.sealed import Refused, refused
from belljar.sandbox.arming import ArmingError, arm, arm_here
from belljar.wire.packets import udp_packet

INET, INET6 = socket.AF_INET, socket.AF_INET6
STREAM, DATAGRAM, RAW = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
MPTCP, SCTP, UDPLITE, DCCP = 262, 132, 136, 33
SOCK_DCCP = 6

families = pytest.mark.parametrize(
    ("family", "somewhere"), [(INET, "203.0.113.10"), (INET6, "2001:db8::10")], ids=["ipv4", "ipv6"]
)


class Sealed:
    """A sealed namespace: sockets are made inside, and used out here."""

    def __init__(self, namespace: NetworkNamespace, listeners: Listeners) -> None:
        self.namespace = namespace
        self.listeners = listeners
        self._stack = ExitStack()

    def make(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        made = self._stack.enter_context(self.namespace.run(lambda: socket.socket(family, kind, protocol)))
        made.settimeout(60)
        return made

    def accept(self, listeners: tuple[socket.socket, ...], family: int) -> socket.socket:
        accepted, _ = of_family(listeners, family).accept()
        return self._stack.enter_context(accepted)

    def refused(self) -> Refused:
        return self.namespace.run(refused)

    def close(self) -> None:
        self._stack.close()
        self.listeners.close()


@contextmanager
def sealed(namespace):
    armed = Sealed(namespace, arm(namespace))
    try:
        yield armed
    finally:
        armed.close()


@pytest.fixture
def armed(namespace):
    with sealed(namespace) as armed:
        yield armed


def of_family(listeners: tuple[socket.socket, ...], family: int) -> socket.socket:
    [listener] = [listener for listener in listeners if listener.family == family]
    listener.settimeout(60)
    return listener


@families
@pytest.mark.parametrize("protocol", [0, MPTCP], ids=["tcp", "mptcp"])
@pytest.mark.parametrize("port", [22, 443, 15001, 65535])
def test_tcp_to_anywhere_arrives_with_its_destination(armed, family, somewhere, protocol, port):
    client = armed.make(family, STREAM, protocol)
    client.connect((somewhere, port))
    accepted = armed.accept(armed.listeners.tcp, family)
    destination = original_destination(accepted)
    assert (str(destination.address), destination.port) == (somewhere, port)
    client.sendall(b"hello")
    assert accepted.recv(9) == b"hello"
    assert client.getpeername()[:2] == (somewhere, port)


@pytest.mark.parametrize("address", ["169.254.169.254", "10.0.0.1", "192.168.1.1", "198.18.0.7", "255.255.255.254"])
def test_no_address_outside_is_special(armed, address):
    client = armed.make(INET, STREAM)
    client.connect((address, 80))
    assert str(original_destination(armed.accept(armed.listeners.tcp, INET)).address) == address


def test_ipv4_in_ipv6_is_ipv4(armed):
    client = armed.make(INET6, STREAM)
    client.connect(("::ffff:203.0.113.10", 443))
    assert str(original_destination(armed.accept(armed.listeners.tcp, INET)).address) == "203.0.113.10"


def test_a_connection_from_a_made_up_source_does_not_come_about(armed):
    client = armed.make(INET, STREAM)
    ip_freebind = 15
    client.setsockopt(socket.IPPROTO_IP, ip_freebind, 1)
    client.bind(("203.0.113.99", 0))
    client.setblocking(False)
    assert client.connect_ex(("203.0.113.10", 443)) == errno.EINPROGRESS
    assert armed.refused().other >= 1, "the gateway's half of the handshake"
    with pytest.raises(BlockingIOError):
        armed.listeners.tcp[0].accept()


DNS_SERVERS = [
    (INET, "8.8.8.8"),
    (INET, "127.0.0.1"),
    (INET, "127.0.0.53"),
    (INET, "192.168.1.1"),
    (INET6, "2001:db8::53"),
    (INET6, "::1"),
]


@pytest.mark.parametrize(("family", "server"), DNS_SERVERS)
@pytest.mark.parametrize("connected", [True, False], ids=["connected", "unconnected"])
def test_dns_over_udp_is_answered_from_the_address_that_was_asked(armed, family, server, connected):
    client = armed.make(family, DATAGRAM)
    if connected:
        client.connect((server, 53))
        client.send(b"question")
    else:
        client.sendto(b"question", (server, 53))
    listener = of_family(armed.listeners.dns_udp, family)
    question, peer = listener.recvfrom(512)
    listener.sendto(b"answer", peer)
    answer, source = client.recvfrom(512)
    assert (question, answer, source[:2]) == (b"question", b"answer", (server, 53))


@pytest.mark.parametrize(("family", "server"), DNS_SERVERS)
def test_dns_over_tcp_reaches_the_dns_listener(armed, family, server):
    client = armed.make(family, STREAM)
    client.connect((server, 53))
    client.sendall(b"question")
    assert armed.accept(armed.listeners.dns_tcp, family).recv(512) == b"question"


REFUSED_PROTOCOLS = {
    "icmp": (INET, RAW, socket.IPPROTO_ICMP),
    "icmpv6": (INET6, RAW, socket.IPPROTO_ICMPV6),
    "udp-lite": (INET, DATAGRAM, UDPLITE),
    "udp-lite-ipv6": (INET6, DATAGRAM, UDPLITE),
    "sctp": (INET, STREAM, SCTP),
    "dccp": (INET, SOCK_DCCP, DCCP),
    "raw-sctp": (INET, RAW, SCTP),
    "raw-dccp": (INET6, RAW, DCCP),
    "raw-gre": (INET, RAW, 47),
    "raw-ip-in-ip": (INET, RAW, 4),
    "raw-experimental": (INET6, RAW, 253),
}


@pytest.mark.parametrize(("family", "kind", "protocol"), REFUSED_PROTOCOLS.values(), ids=REFUSED_PROTOCOLS)
def test_other_protocols_are_refused_at_once_and_counted(armed, family, kind, protocol):
    """Even for root, who alone may make most of these sockets."""
    try:
        client = armed.make(family, kind, protocol)
    except OSError as error:
        assert error.errno in (errno.EPROTONOSUPPORT, errno.ESOCKTNOSUPPORT), "neither made nor unknown to this kernel"
        return
    with pytest.raises(OSError, match=r"not permitted|Permission denied|unreachable"):
        client.sendto(bytes(8), ("203.0.113.10" if family == INET else "2001:db8::10", 443 if kind != RAW else 0))
    assert armed.refused() == (0, 1)


@families
def test_a_whole_packet_of_ones_own_making_is_refused(armed, family, somewhere):
    """IPPROTO_RAW: the sender writes the IP header, and a made-up source into it."""
    client = armed.make(family, RAW, socket.IPPROTO_RAW)
    if family == INET:
        header = bytes.fromhex("4500001c 00004000 40110000 cb007163 cb00710a")
    else:
        header = bytes.fromhex("60000000 0008 11 40") + socket.inet_pton(INET6, "2001:db8::63")
        header += socket.inet_pton(INET6, somewhere)
    with pytest.raises(PermissionError):
        client.sendto(header + bytes.fromhex("270f 270f 0008 0000"), (somewhere, 0))
    assert armed.refused().udp == 1


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (INET, "127.0.0.1"),
        (INET, "127.8.8.8"),
        (INET, str(loopback.OWN_IPV4)),
        (INET6, "::1"),
        (INET6, str(loopback.OWN_IPV6)),
    ],
)
def test_the_agents_own_servers_are_left_alone(armed, family, address):
    server = armed.make(family, STREAM)
    server.bind((address, 8000))
    server.listen()
    armed.make(family, STREAM).connect((address, 8000))
    server.accept()[0].close()

    datagrams, client = armed.make(family, DATAGRAM), armed.make(family, DATAGRAM)
    datagrams.bind((address, 9999))
    client.sendto(b"to myself", (address, 9999))
    assert datagrams.recv(99) == b"to myself"
    assert armed.refused() == (0, 0)


def test_a_port_nobody_serves_inside_is_refused_as_ever(armed):
    with pytest.raises(ConnectionRefusedError):
        armed.make(INET, STREAM).connect(("127.0.0.1", 8000))


@families
@pytest.mark.parametrize("port", [123, 443, 853, 5353, 9999, 15002, 15003])
def test_udp_arrives_with_its_destination_and_is_answered_from_there(armed, family, somewhere, port):
    client = armed.make(family, DATAGRAM)
    client.sendto(b"question", (somewhere, port))
    listener = of_family(armed.listeners.udp, family)
    question, ancillary, _, peer = listener.recvmsg(512, transparent.ANCILLARY_BYTES)
    address, original_port = transparent.destination(ancillary)
    assert (question, str(address), original_port) == (b"question", somewhere, port)

    answering = of_family(armed.listeners.udp_answers, family)
    answering.sendto(udp_packet((address, port), (ip_address(peer[0]), peer[1]), b"answer"), (peer[0], 0))
    answer, source = client.recvfrom(512)
    assert (answer, source[:2]) == (b"answer", (somewhere, port))


def test_dns_still_goes_to_the_dns_listener(armed):
    armed.make(INET, DATAGRAM).sendto(b"question", ("8.8.8.8", 53))
    assert of_family(armed.listeners.dns_udp, INET).recv(512) == b"question"


def test_udp_from_a_made_up_source_is_refused(armed):
    """The answer to it would come back to the gateway as a request."""
    client = armed.make(INET, DATAGRAM)
    ip_freebind = 15
    client.setsockopt(socket.IPPROTO_IP, ip_freebind, 1)
    client.bind(("203.0.113.99", 0))
    with pytest.raises(PermissionError):
        client.sendto(b"question", ("203.0.113.10", 443))
    assert armed.refused().udp == 1


@pytest.mark.parametrize(
    ("kind", "port"),
    [(STREAM, 1080), (STREAM, 3128), (STREAM, 15001), (STREAM, 15002), (DATAGRAM, 15002), (DATAGRAM, 15003)],
)
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_the_agent_cannot_take_over_a_listener(armed, address, kind, port):
    thief = armed.make(INET, kind)
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with pytest.raises(OSError, match="Address already in use"):
        thief.bind((address, port))


def test_listeners_do_not_block_and_are_not_inherited(armed):
    assert all(not listener.getblocking() and not listener.get_inheritable() for listener in armed.listeners)
    assert {door: len(group) for door, group in armed.listeners.groups().items()} == {
        "tcp": 2,
        "dns_udp": 2,
        "dns_tcp": 2,
        "http_proxy": 2,
        "socks": 2,
        "udp": 2,
        "udp_answers": 2,
    }


@families
def test_a_program_that_wants_an_address_first_finds_one(armed, family, somewhere):
    client = armed.make(family, DATAGRAM)
    client.connect((somewhere, 443))
    assert client.getsockname()[0] == str(loopback.OWN_IPV4 if family == INET else loopback.OWN_IPV6)


def test_a_sandbox_can_be_armed_again_when_its_gateway_was_restarted(namespace):
    with sealed(namespace):
        pass
    with sealed(namespace) as again:
        again.make(INET, STREAM).connect(("203.0.113.10", 443))
        again.accept(again.listeners.tcp, INET)


def test_without_a_gateway_the_sandbox_is_closed(namespace):
    arm(namespace).close()
    with namespace.run(socket.socket) as client, pytest.raises(ConnectionRefusedError):
        client.connect(("203.0.113.10", 443))


def test_a_helper_can_arm_and_hand_the_listeners_out(namespace):
    """As a helper process does that alone may enter the namespace."""
    ours, theirs = socket.socketpair()
    with ours, theirs:

        def helper():
            listeners = arm_here()
            send_sockets(theirs, listeners.groups())
            listeners.close()

        namespace.run(helper)
        armed = Sealed(namespace, Listeners(**receive_sockets(ours)))
    armed.make(INET, STREAM).connect(("203.0.113.10", 443))
    assert original_destination(armed.accept(armed.listeners.tcp, INET)).port == 443
    armed.close()


def test_a_missing_program_is_named_with_its_package(namespace, monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "DIRECTORIES", str(tmp_path))
    with pytest.raises(ArmingError, match=r"nft is not installed\n.*apt-get install nftables$"):
        arm(namespace)


def test_an_interface_that_cannot_be_brought_up_is_an_error(namespace):
    namespace.run(lambda: programs.run("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"))
    with pytest.raises(ArmingError, match=r"cannot bring up its loopback interface: .*\nIt takes IPv4 and IPv6"):
        arm(namespace)


def test_a_port_that_is_taken_is_an_error_that_leaves_nothing_open(namespace):
    arm(namespace).close()
    with (
        namespace.run(lambda: socket.create_server(("127.0.0.1", 3128))),
        pytest.raises(ArmingError, match=r"cannot bind its listeners: .*in use\nNothing else may listen on .*3128"),
    ):
        arm(namespace)
    with sealed(namespace) as armed:
        assert armed.listeners.tcp


def test_a_namespace_that_cannot_be_entered_is_an_error(namespace):
    namespace.close()
    with pytest.raises(ArmingError, match="cannot enter its network namespace"):
        arm(namespace)


def test_without_the_right_to_filter_packets_nothing_is_armed(namespace):
    """Neither nft nor ip does anything for one who lacks CAP_NET_ADMIN, and that is an error, not a warning."""
    code = "from belljar.sandbox.arming import arm_here; arm_here()"
    command = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", sys.executable, "-c", code]
    done = namespace.run(lambda: subprocess.run(command, capture_output=True, text=True, check=False))
    assert "ArmingError: the sandbox cannot be sealed: cannot install its packet filter: nft: " in done.stderr
    assert namespace.run(lambda: programs.run("nft", "list", "ruleset")) == ""
