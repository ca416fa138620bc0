"""Packets written by hand: an answer from whatever address was asked, and the news that a datagram did not get through.

A socket of the kind IPPROTO_RAW takes a whole packet, its IP header included. So one such socket speaks for all
addresses and ports of its network, where an ordinary one would have to be bound to each of them in turn, and might
find it taken. The kernel completes the checksum of an IPv4 header; all others are written here.
"""

import struct
from typing import Final, TypeAlias

from belljar.names import Address

Party: TypeAlias = tuple[Address, int]
"""An address and a port."""

MAX_DATA: Final = 65535 - 40 - 8
"""The most bytes of data in a datagram, less the headers of IPv6 and UDP; no real one comes near it."""

_IPV4: Final = struct.Struct("!2B3H2BH4s4s")
_IPV6: Final = struct.Struct("!LH2B16s16s")
_PSEUDO_IPV6: Final = struct.Struct("!16s16sLL")
_UDP: Final = struct.Struct("!4H")
_ICMP: Final = struct.Struct("!2BHL")
_HOPS: Final = 64

_PROTOCOL_UDP: Final = 17
_PROTOCOL_ICMP: Final = 1
_PROTOCOL_ICMPV6: Final = 58
_PORT_UNREACHABLE: Final = {4: (3, 3), 6: (1, 4)}  # type and code of each family


def udp_packet(source: Party, destination: Party, data: bytes) -> bytes:
    """Return a datagram of at most MAX_DATA bytes as a packet."""
    head = _UDP.pack(source[1], destination[1], _UDP.size + len(data), 0)
    if source[0].version == 6:  # where a checksum is not optional
        checksum = _checksum(_pseudo(source[0], destination[0], _PROTOCOL_UDP, head + data))
        head = head[:-2] + checksum.to_bytes(2, "big")
    return _packet(source[0], destination[0], _PROTOCOL_UDP, head + data)


def port_unreachable_packet(source: Party, destination: Party) -> bytes:
    """Return the ICMP error that tells the source of a datagram that nobody took it at its destination."""
    kind, code = _PORT_UNREACHABLE[source[0].version]
    culprit = _packet(source[0], destination[0], _PROTOCOL_UDP, _UDP.pack(source[1], destination[1], _UDP.size, 0))
    message = _ICMP.pack(kind, code, 0, 0) + culprit
    sender, receiver = destination[0], source[0]
    protocol = _PROTOCOL_ICMP if sender.version == 4 else _PROTOCOL_ICMPV6
    covered = message if sender.version == 4 else _pseudo(sender, receiver, protocol, message)
    message = _ICMP.pack(kind, code, _checksum(covered), 0) + culprit
    return _packet(sender, receiver, protocol, message)


def _packet(sender: Address, receiver: Address, protocol: int, payload: bytes) -> bytes:
    size = len(payload)
    if sender.version == 4:
        head = _IPV4.pack(0x45, 0, _IPV4.size + size, 0, 0, _HOPS, protocol, 0, sender.packed, receiver.packed)
    else:
        head = _IPV6.pack(6 << 28, size, protocol, _HOPS, sender.packed, receiver.packed)
    return head + payload


def _pseudo(sender: Address, receiver: Address, protocol: int, payload: bytes) -> bytes:
    """Return what a checksum over IPv6 covers: the addresses and the length, too."""
    return _PSEUDO_IPV6.pack(sender.packed, receiver.packed, len(payload), protocol) + payload


def _checksum(covered: bytes) -> int:
    """Return the Internet checksum (RFC 1071): the sum of all 16-bit words, modulo 65535, inverted."""
    padded = covered if len(covered) % 2 == 0 else covered + b"\0"
    return 0xFFFF - int.from_bytes(padded, "big") % 0xFFFF
