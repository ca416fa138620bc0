"""UDP for addresses that are not ours.

A transparent listener receives what `tproxy` diverts to it, each datagram with the destination it was sent to. Answers
leave through a raw socket, which takes whole packets: the client sees them come from the address it asked. Both take
privileges when they are made (CAP_NET_ADMIN, CAP_NET_RAW); whoever uses them later needs none.
"""

import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

# Linux's numbers, for which the socket module has no names.
_IP_TRANSPARENT: Final = 19
_IP_ORIGDSTADDR: Final = 20
_IPV6_ORIGDSTADDR: Final = 74
_IPV6_TRANSPARENT: Final = 75

ANCILLARY_BYTES: Final = socket.CMSG_SPACE(28)
"""Room that `recvmsg` needs for the destination of a datagram: a sockaddr_in6, the larger of the two."""


def make_transparent(sock: socket.socket) -> None:
    """Let a socket be bound to an address that no interface has."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, _IP_TRANSPARENT, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)


def report_destinations(sock: socket.socket) -> None:
    """Have each received datagram come with the destination it was sent to."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, _IP_ORIGDSTADDR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_ORIGDSTADDR, 1)


def make_answering(family: int) -> socket.socket:
    """Make a socket that sends whole packets, and receives none."""
    return socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, socket.IPPROTO_RAW)


def destination(ancillary: Iterable[tuple[int, int, bytes]]) -> tuple[IPv4Address | IPv6Address, int]:
    """Return the destination of a datagram from the ancillary data that `recvmsg` returned.

    Raises LookupError if it is not there.
    """
    for level, kind, data in ancillary:
        if (level, kind) == (socket.IPPROTO_IP, _IP_ORIGDSTADDR):
            port, ipv4 = struct.unpack_from("!2xH4s", data)
            return IPv4Address(ipv4), port
        if (level, kind) == (socket.IPPROTO_IPV6, _IPV6_ORIGDSTADDR):
            port, ipv6 = struct.unpack_from("!2xH4x16s", data)
            return IPv6Address(ipv6), port
    raise LookupError("the datagram came without its destination")
