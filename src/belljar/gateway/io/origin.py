"""Where a redirected connection was meant to go."""

import socket
import struct
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from belljar.names import Address

_SO_ORIGINAL_DST: Final = 80  # the same number for both families, at each family's own level


class Endpoint(NamedTuple):
    """An address and a port."""

    address: Address
    port: int


def original_destination(accepted: socket.socket) -> Endpoint:
    """Return the destination that the client dialled, before the redirection. Raises OSError if there was none."""
    if accepted.family == socket.AF_INET:
        raw = accepted.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
        port, address = struct.unpack_from("!2xH4s", raw)
        return Endpoint(IPv4Address(address), port)
    raw = accepted.getsockopt(socket.IPPROTO_IPV6, _SO_ORIGINAL_DST, 28)
    port, address = struct.unpack_from("!2xH4x16s", raw)
    return Endpoint(IPv6Address(address), port)


def is_to(accepted: socket.socket, destination: Endpoint) -> bool:
    """Tell whether our side of a connection is this very destination."""
    return destination.port == accepted.getsockname()[1] and destination == own_address(accepted)


def own_address(accepted: socket.socket) -> Endpoint:
    """Return the address of our side of a connection."""
    name = accepted.getsockname()
    address = IPv4Address(name[0]) if accepted.family == socket.AF_INET else IPv6Address(name[0])
    return Endpoint(address, name[1])
