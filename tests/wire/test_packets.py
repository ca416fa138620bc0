"""Packets written by hand, read by the kernel of a network namespace that has nothing but its loopback interface."""

import socket
from ipaddress import ip_address

import pytest

from belljar.linux import loopback
from belljar.linux.namespaces import NetworkNamespace
from belljar.wire.packets import MAX_DATA, port_unreachable_packet, udp_packet

ASKED = {socket.AF_INET: "203.0.113.10", socket.AF_INET6: "2001:db8::10"}
families = pytest.mark.parametrize("family", ASKED, ids=["ipv4", "ipv6"])


class Wire:
    """A raw socket and a client that has asked an address outside, on one loopback interface."""

    def __init__(self, namespace: NetworkNamespace, family: socket.AddressFamily) -> None:
        namespace.run(loopback.bring_up)
        self._raw = namespace.run(lambda: socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW))
        self.client = namespace.run(lambda: socket.socket(family, socket.SOCK_DGRAM))
        self.client.settimeout(60)
        self.asked = ip_address(ASKED[family]), 443
        self.client.connect((ASKED[family], 443))
        address, port, *_ = self.client.getsockname()
        self.source = ip_address(address), port

    def send(self, packet: bytes) -> None:
        self._raw.sendto(packet, (str(self.source[0]), 0))

    def close(self) -> None:
        self._raw.close()
        self.client.close()


@pytest.fixture
def wire(namespace, family):
    wire = Wire(namespace, family)
    yield wire
    wire.close()


@families
@pytest.mark.parametrize("size", [0, 1, 2, 1199, 1200, MAX_DATA])
def test_the_kernel_takes_a_datagram_for_the_answer_of_the_address_in_it(wire, size):
    data = bytes(index * 7 % 251 for index in range(size))
    wire.send(udp_packet(wire.asked, wire.source, data))
    answer, source = wire.client.recvfrom(65536)
    assert (answer, source[:2]) == (data, (str(wire.asked[0]), 443))


@pytest.mark.parametrize("family", [socket.AF_INET6])
def test_a_checksum_that_comes_to_zero_is_written_otherwise(wire):
    """In IPv6 a checksum of zero would mean that there is none, and the datagram would be lost."""
    datagrams = (filler.to_bytes(2, "big") for filler in range(0x10000))
    data = next(data for data in datagrams if udp_packet(wire.asked, wire.source, data)[-4:-2] == b"\xff\xff")
    wire.send(udp_packet(wire.asked, wire.source, data))
    assert wire.client.recv(9) == data


@families
def test_the_kernel_takes_the_error_for_one_about_the_clients_own_datagram(wire):
    wire.send(port_unreachable_packet(wire.source, wire.asked))
    with pytest.raises(ConnectionRefusedError):
        wire.client.recv(9)


@families
def test_an_error_about_the_datagram_of_another_port_is_not_the_clients(wire):
    address, port = wire.source
    wire.send(port_unreachable_packet((address, port ^ 1), wire.asked))
    wire.send(udp_packet(wire.asked, wire.source, b"answer"))
    assert wire.client.recv(9) == b"answer"
