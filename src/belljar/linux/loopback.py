"""The loopback interface of a sealed sandbox: its only one, and the way to everywhere.

Every address in the world is routed to `lo` as a local one. A packet to anywhere thus has a route (a program would
give up without one) and meets the packet filter, which says where it really goes. IPv6 offers no other way: a
default route on `lo` that is not local becomes an unreachable one.

The interface has an address of its own beside 127.0.0.1 and ::1, and packets to the outside leave from it: a
program that looks for an address before it uses a family (AI_ADDRCONFIG) finds one.

The kernel is asked itself (rtnetlink), and not through `ip`: every sandbox waits for it.
"""

import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

OWN_IPV4: Final = IPv4Address("192.0.0.8")
"""The dummy address of RFC 7600: a source, but nobody's destination, and outside the pool 198.18.0.0/15."""

OWN_IPV6: Final = IPv6Address("fd62:656c:6c6a::1")
"""A unique local address, alone in its /64."""

# Linux's numbers, from linux/netlink.h, linux/rtnetlink.h and linux/if_addr.h.
_NLMSG_ERROR: Final = 2
_NLM_F_REQUEST, _NLM_F_ACK = 0x1, 0x4
_REPLACE: Final = 0x100 | 0x400  # NLM_F_REPLACE, NLM_F_CREATE
_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE = 16, 20, 24
_IFF_UP: Final = 0x1
_IFA_ADDRESS, _IFA_LOCAL, _IFA_FLAGS = 1, 2, 8
_RTA_OIF, _RTA_PREFSRC = 4, 7
_RT_TABLE_MAIN, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL = 254, 3, 254, 2

# The kernel gets an IPv6 address ready in the background. Without `nodad` it may be too early to use it as a source,
# and without `noprefixroute` the address itself may be unreachable for a moment.
_AT_ONCE: Final = 0x2 | 0x200

_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, sender
_ATTRIBUTE: Final = struct.Struct("=HH")
_NUMBER: Final = struct.Struct("=I")
_ERROR: Final = struct.Struct("=i")
_MAX_ANSWER: Final = 4096


def bring_up() -> None:
    """Bring the loopback interface up in the network namespace of the calling thread. Raises OSError."""
    kinds = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kinds, socket.NETLINK_ROUTE) as kernel:
        kernel.connect((0, 0))  # nobody else can answer then
        for kind, flags, body in _changes(socket.if_nametoindex("lo")):
            asked = flags | _NLM_F_REQUEST | _NLM_F_ACK
            kernel.send(_HEADER.pack(_HEADER.size + len(body), kind, asked, 0, 0) + body)
            _check(kernel.recv(_MAX_ANSWER))


def _changes(interface: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield what `ip` would ask for: link set, address replace, route replace."""
    yield _RTM_NEWLINK, 0, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, interface, _IFF_UP, _IFF_UP)
    for family, address, flags in ((socket.AF_INET, OWN_IPV4, 0), (socket.AF_INET6, OWN_IPV6, _AT_ONCE)):
        own = struct.pack("=BBBBI", family, address.max_prefixlen, 0, 0, interface)
        own += _attribute(_IFA_LOCAL, address.packed) + _attribute(_IFA_ADDRESS, address.packed)
        yield _RTM_NEWADDR, _REPLACE, own + _attribute(_IFA_FLAGS, _NUMBER.pack(flags))
    for family, address in ((socket.AF_INET, OWN_IPV4), (socket.AF_INET6, OWN_IPV6)):
        everywhere = struct.pack(
            "=BBBBBBBBI", family, 0, 0, 0, _RT_TABLE_MAIN, _RTPROT_BOOT, _RT_SCOPE_HOST, _RTN_LOCAL, 0
        )
        everywhere += _attribute(_RTA_OIF, _NUMBER.pack(interface))
        yield _RTM_NEWROUTE, _REPLACE, everywhere + _attribute(_RTA_PREFSRC, address.packed)


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value


def _check(answer: bytes) -> None:
    kind = _HEADER.unpack_from(answer)[1]
    (failed,) = _ERROR.unpack_from(answer, _HEADER.size)
    if kind != _NLMSG_ERROR or failed:
        raise OSError(-failed, os.strerror(-failed))
