"""Protocols other than TCP, and sockets of families that a network namespace does not hold."""

import socket
import struct
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, inside, network
from belljar.verify.probes.network.clients import Action, ask, counted, describe, refused, say, send

_MPTCP: Final = 262
_ECHO: Final = {4: (socket.IPPROTO_ICMP, 8), 6: (socket.IPPROTO_ICMPV6, 128)}

_FAMILIES: Final = {
    "VSOCK": 40, "PACKET": 17, "ALG": 38, "XDP": 44, "TIPC": 30, "RDS": 21, "CAN": 29, "BLUETOOTH": 31, "KCM": 41,
    "NFC": 39, "QIPCRTR": 42, "SMC": 43, "MCTP": 45, "X25": 9, "AX25": 3, "NETROM": 6, "IPX": 4, "APPLETALK": 5,
    "KEY": 15, "LLC": 26, "IEEE802154": 36, "PHONET": 35, "CAIF": 37, "PPPOX": 24,
}  # fmt: skip
"""Families by their numbers. Sockets of some reach beyond any network namespace; they are made, never connected."""

_NETLINK_OTHERS: Final = {"SOCK_DIAG": 4, "XFRM": 6, "AUDIT": 9, "NETFILTER": 12, "KOBJECT_UEVENT": 15, "GENERIC": 16}


@network(6, "datagrams", "UDP to any port")
def datagrams(mark: Mark) -> Finding:
    data = mark.token.encode()
    return refused(
        *(partial(send, mark.address, port, data) for port in (1, 123, 500, 1194, 4500, 9999, 51820)),
        lambda: send(mark.address, 9999, data * 300),
        lambda: send(mark.granted, 9999, data),
    )


@network(6, "other-protocols", "ICMP, raw sockets, SCTP, DCCP and UDP-Lite")
def other_protocols(mark: Mark) -> Finding:
    return refused(
        lambda: _echo(mark, socket.SOCK_DGRAM),
        lambda: _echo(mark, socket.SOCK_RAW),
        _over(mark, socket.SOCK_RAW, socket.IPPROTO_RAW),
        _over(mark, socket.SOCK_RAW, 253),
        _over(mark, socket.SOCK_STREAM, 132),
        _over(mark, socket.SOCK_SEQPACKET, 132),
        _over(mark, 6, 33),  # SOCK_DCCP
        _over(mark, socket.SOCK_DGRAM, 136),
    )


def _over(mark: Mark, kind: int, protocol: int) -> Action:
    def action() -> bytes:
        with socket.socket(mark.socket_family, kind, protocol) as sock:
            sock.settimeout(1)
            sock.connect((mark.address, 0 if kind == socket.SOCK_RAW else 9999))
            sock.send(mark.token.encode())
            return sock.recv(65536) or b"connected"

    return action


def _echo(mark: Mark, kind: int) -> bytes:
    protocol, request = _ECHO[mark.family]
    with socket.socket(mark.socket_family, kind, protocol) as sock:
        sock.settimeout(1)
        sock.connect((mark.address, 0))
        sock.send(struct.pack("!BBHHH", request, 0, 0, 1, 1) + mark.token.encode())
        return places.MARKER.encode() + b" ping 0" if sock.recv(65536) else b""


@network(20, "quic", "QUIC, which is UDP to port 443, to a granted name and to an address")
def quic(mark: Mark) -> Finding:
    initial = b"\xc3\0\0\0\1\x08" + bytes(8) + mark.token.encode().ljust(1200, b"\0")
    return refused(lambda: send(mark.granted, 443, initial), lambda: send(mark.address, 443, initial))


@network(56, "multipath", "multipath TCP", beside="address")
def multipath(mark: Mark) -> Finding:
    def action() -> bytes:
        sock = socket.socket(mark.socket_family, socket.SOCK_STREAM, _MPTCP)
        sock.settimeout(5)
        sock.connect((mark.address, places.HTTPS))
        return say(sock, f"{mark.token}\n".encode())

    return refused(action, lambda: ask(mark.address, places.HTTPS, f"{mark.token}\n".encode()))


@inside(36, "families", "sockets of other families: VSOCK, PACKET, ALG, XDP, TIPC and more")
def families(_: Mark) -> Finding:
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET)
    return _none_can_be_made([(name, family, kind, 0) for name, family in _FAMILIES.items() for kind in kinds])


@inside(36, "netlink", "netlink sockets other than for routing information")
def netlink(_: Mark) -> Finding:
    return _none_can_be_made(
        [(name, socket.AF_NETLINK, socket.SOCK_RAW, protocol) for name, protocol in _NETLINK_OTHERS.items()]
    )


def _none_can_be_made(sockets: list[tuple[str, int, int, int]]) -> Finding:
    outcomes, made = Counter[str](), []
    with ExitStack() as stack:
        for name, *parameters in sockets:
            try:
                stack.enter_context(socket.socket(*parameters))
            except OSError as error:
                outcomes[describe(error)] += 1
            else:
                made.append(name)
    return Finding(not made, f"can be made: {', '.join(made)}" if made else counted(outcomes))
