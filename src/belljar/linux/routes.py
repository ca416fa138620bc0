"""Whether an address is this host's own, asked of the kernel at the moment it matters.

Theory of operation
-------------------
A list of the addresses of all interfaces is not the whole answer, and soon not the answer any more: DHCP, a VPN, a new
bridge or a temporary IPv6 address add to it at any time, and what is delivered on the host can be a whole range (a
route of the type `local`, AnyIP), an anycast address or a matter of rules. So nothing is listed and nothing is
remembered. The kernel is asked for the route to one destination (RTM_GETROUTE), as `ip route get` does: that is the
look-up that `connect` makes, rules and tables included, for our user, without a mark or an interface, and without a
source before the kernel has chosen one.

The answer is in the socket's queue before `send` returns, so nobody waits for it. It takes some microseconds and no
privilege. What the host's packet filter does to a packet later (redirect, DNAT, a mark that leads to another table) is
not part of a route, and cannot be seen here.
"""

import errno
import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final

_Address = IPv4Address | IPv6Address

# Linux's numbers, from linux/netlink.h and linux/rtnetlink.h.
_NLMSG_ERROR: Final = 2
_NLM_F_REQUEST: Final = 1
_RTM_NEWROUTE: Final = 24
_RTM_GETROUTE: Final = 26
_RTA_DST: Final = 1
_RTA_SRC: Final = 2
_RTA_IP_PROTO: Final = 27
_RTA_DPORT: Final = 29
_RTN_UNICAST: Final = 1
_LEADS_NOWHERE: Final = (6, 7, 8)  # blackhole, unreachable, prohibit

_HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence, sender
_TYPE_AT: Final = _HEADER.size + 7  # in a struct rtmsg
_ERROR: Final = struct.Struct("=i")
_ATTRIBUTE: Final = struct.Struct("=HH")
_MAX_ANSWER: Final = 1024

_FAMILIES: Final = {4: int(socket.AF_INET), 16: int(socket.AF_INET6)}
_QUESTIONS: Final = {size: struct.Struct(f"{_HEADER.format}BBB5xIHH{size}sHHB3xHHH2x") for size in _FAMILIES}
"""For addresses of a size: a header, a struct rtmsg, and attributes for the destination, its protocol and its port."""

_NO_ROUTE: Final = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EINVAL)
"""What a look-up that ends at no route, or at an unreachable, prohibit or blackhole one is answered with."""


class Routes:
    """Asks in the network namespace of the thread that asks first; all others have to be in the same."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._sequence = 0

    def is_own(self, address: _Address, protocol: int, port: int, source: bytes = b"") -> bool:
        """Tell whether what is sent to an address now, from a source of its family if one is given, arrives here.

        What no route leads to is not the host's own, and cannot be dialled either. Raises OSError if the kernel does
        not say.
        """
        try:
            kind = self._ask(address, protocol, port, source)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(f"the kernel does not say whether {address} is an address of this host: {reason}") from None
        return kind != _RTN_UNICAST and kind not in _LEADS_NOWHERE

    def close(self) -> None:
        """Let go of the socket; whoever asks again gets another one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, address: _Address, protocol: int, port: int, source: bytes) -> int:
        """Return the type of the route to an address."""
        if self._socket is None:
            kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._sequence = self._sequence + 1 & 0xFFFF_FFFF
        self._socket.send(_question(address, protocol, port, source, self._sequence))
        while True:  # an answer that was too late for its question is not ours
            answer, (sender, _) = self._socket.recvfrom(_MAX_ANSWER)
            _, kind, _, sequence, _ = _HEADER.unpack_from(answer)
            if sender == 0 and sequence == self._sequence:
                break
        if kind == _RTM_NEWROUTE:
            return answer[_TYPE_AT]
        number = -_ERROR.unpack_from(answer, _HEADER.size)[0] if kind == _NLMSG_ERROR else errno.EPROTO
        if number in _NO_ROUTE or (address.version == 6 and number == errno.EOPNOTSUPP and not _has_ipv6()):
            return _LEADS_NOWHERE[0]
        raise OSError(number, os.strerror(number))


def _question(address: _Address, protocol: int, port: int, source: bytes, sequence: int) -> bytes:
    packed = address.packed
    size = len(packed)
    question, from_source = _QUESTIONS[size], (_ATTRIBUTE.pack(4 + size, _RTA_SRC) + source if source else b"")
    return (
        question.pack(
            question.size + len(from_source), _RTM_GETROUTE, _NLM_F_REQUEST, sequence, 0,
            _FAMILIES[size], 8 * size, 8 * len(source), 0,
            4 + size, _RTA_DST, packed,
            5, _RTA_IP_PROTO, protocol,
            6, _RTA_DPORT, socket.htons(port),
        )
        + from_source
    )  # fmt: skip


def _has_ipv6() -> bool:
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC).close()
    except OSError as error:
        return error.errno != errno.EAFNOSUPPORT
    return True
