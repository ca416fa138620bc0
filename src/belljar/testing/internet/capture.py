"""A look at every packet that arrives in a network namespace, before anything else has dealt with it."""

import socket
import struct
from ipaddress import ip_address
from typing import Final, NamedTuple

_EVERY_PROTOCOL: Final = 3
_PACKET_OUTGOING: Final = 4
_PACKET_STATISTICS: Final = 6
_SOL_PACKET: Final = 263
_ARP: Final = 0x0806
_TCP, _UDP, _ICMPV6 = 6, 17, 58
_SYN, _ACK = 0x02, 0x10
_NEIGHBOURS: Final = range(130, 144)  # what IPv6 says to its own link: groups, routers, neighbours
_PROTOCOLS: Final = {1: "ICMP", 2: "IGMP", _TCP: "TCP", _UDP: "UDP", 33: "DCCP", _ICMPV6: "ICMPv6", 132: "SCTP",
                     136: "UDP-Lite"}  # fmt: skip
_ROOM: Final = 8 << 20


class Packet(NamedTuple):
    """A packet that somebody sent here; of TCP, the attempt to connect."""

    protocol: str
    address: str
    """Where it was sent to."""

    port: int
    """0 where the protocol has none."""

    data: bytes

    def __str__(self) -> str:
        return f"{self.protocol} to {self.address}" + (f" port {self.port}" if self.port else "")


class Capture:
    """Packets that arrive in the network namespace it is made in; with `interface`, those that arrive there."""

    def __init__(self, interface: str | None = None) -> None:
        kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
        self.socket = socket.socket(socket.AF_PACKET, kind, socket.htons(_EVERY_PROTOCOL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
        if interface is not None:
            self.socket.bind((interface, _EVERY_PROTOCOL))

    def read(self) -> list[Packet]:
        """Return what has arrived since the last time."""
        packets: list[Packet] = []
        while True:
            try:
                data, (_, protocol, kind, *_) = self.socket.recvfrom(65536)
            except BlockingIOError:
                return packets
            if kind != _PACKET_OUTGOING and (packet := _read(protocol, data)) is not None:
                packets.append(packet)

    def lost(self) -> int:
        """Return how many packets there was no room for, since the last time."""
        _, dropped = struct.unpack("=II", self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        return int(dropped)


def _read(ethertype: int, data: bytes) -> Packet | None:
    """Return the packet; None for what is not worth telling."""
    if ethertype == 0x0800 and len(data) >= 20:
        start, protocol, address = (data[0] & 0xF) * 4, data[9], data[16:20]
    elif ethertype == 0x86DD and len(data) >= 40:
        start, protocol, address = _behind_extensions(data)
        if protocol == _ICMPV6 and data[start : start + 1] and data[start] in _NEIGHBOURS:
            return None
    else:
        return None if ethertype == _ARP else Packet(f"ethertype {ethertype:#06x}", "?", 0, data)
    payload = data[start:]
    if protocol == _TCP and len(payload) >= 14 and payload[13] & (_SYN | _ACK) != _SYN:
        return None
    has_ports = protocol in (_TCP, _UDP, 33, 132, 136) and len(payload) >= 4
    port = int.from_bytes(payload[2:4], "big") if has_ports else 0
    return Packet(_PROTOCOLS.get(protocol, f"protocol {protocol}"), str(ip_address(address)), port, payload)


def _behind_extensions(data: bytes) -> tuple[int, int, bytes]:
    """Return where the payload begins and what it is, and the destination."""
    start, protocol = 40, data[6]
    while protocol in (0, 43, 60) and len(data) >= start + 2:  # hop by hop, routing, destination options
        protocol, start = data[start], start + (data[start + 1] + 1) * 8
    return start, protocol, data[24:40]
