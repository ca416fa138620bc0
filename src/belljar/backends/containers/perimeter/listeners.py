"""The gateway's sockets on the address of a container's bridge, and the first probe from inside.

The kernel chooses their ports, and only the packet filter knows them: nothing of the host's is in the way, and nobody
dials them but those who are led there.
"""

import secrets
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv4Address
from typing import Final

from belljar.backends.containers.perimeter.bridges import Bridge
from belljar.errors import BelljarError
from belljar.gateway.io.origin import Endpoint, original_destination
from belljar.gateway.listeners import Listeners

_IP_FREEBIND: Final = 15
_BACKLOG: Final = 4096
_SECONDS: Final = 10.0

_ELSEWHERE: Final = Endpoint(IPv4Address("192.0.2.1"), 9)
_PROBE: Final = """\
import socket, sys
address, port, token = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as stream:
    stream.connect((address, port))
    stream.sendall(token)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
    datagrams.sendto(token, (address, 53))
"""


class PerimeterError(BelljarError):
    """What a container sends does not come out at its doors."""


def bind(address: IPv4Address) -> Listeners:
    """Make the sockets. The bridge need not be there yet: Podman makes it when the container starts."""
    with ExitStack() as closing:

        def one(kind: int) -> tuple[socket.socket]:
            return (closing.enter_context(_bound(address, kind)),)

        listeners = Listeners(
            tcp=one(socket.SOCK_STREAM),
            dns_udp=one(socket.SOCK_DGRAM),
            dns_tcp=one(socket.SOCK_STREAM),
            http_proxy=one(socket.SOCK_STREAM),
            socks=one(socket.SOCK_STREAM),
            udp=(),
            udp_answers=(),
        )
        closing.pop_all()
    return listeners


def ports(listeners: Listeners) -> dict[str, int]:
    """Return the port of each door."""
    return {door: sockets[0].getsockname()[1] for door, sockets in listeners.groups().items() if sockets}


@contextmanager
def prove(site: Bridge, listeners: Listeners) -> Iterator[list[str]]:
    """Have the words be run, with Python and in the container, and wait for what that sends. Raises PerimeterError."""
    token = secrets.token_hex(16)
    yield ["-I", "-S", "-B", "-c", _PROBE, str(_ELSEWHERE.address), str(_ELSEWHERE.port), token]
    deadline = time.monotonic() + _SECONDS
    if not _comes_as_stream(site, listeners.tcp[0], token.encode(), deadline):
        raise PerimeterError(_complaint(site, "a connection"))
    if not _comes_as_datagram(site, listeners.dns_udp[0], token.encode(), deadline):
        raise PerimeterError(_complaint(site, "a question to a name server"))


def _bound(address: IPv4Address, kind: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, kind)
    try:
        bound.setsockopt(socket.SOL_IP, _IP_FREEBIND, 1)
        bound.bind((str(address), 0))
        if kind == socket.SOCK_STREAM:
            bound.listen(_BACKLOG)
        bound.settimeout(0)
    except OSError:
        bound.close()
        raise
    return bound


def _comes_as_stream(site: Bridge, listener: socket.socket, token: bytes, deadline: float) -> bool:
    if not _waited_for(listener, deadline):
        return False
    accepted, (peer, _) = listener.accept()
    with accepted:
        if peer != str(site.address) or original_destination(accepted) != _ELSEWHERE:
            return False
        said = b""
        while _waited_for(accepted, deadline) and (piece := accepted.recv(len(token))):
            said += piece
        return said == token


def _comes_as_datagram(site: Bridge, listener: socket.socket, token: bytes, deadline: float) -> bool:
    if not _waited_for(listener, deadline):
        return False
    message, (peer, _) = listener.recvfrom(len(token))
    return message == token and peer == str(site.address)


def _waited_for(sock: socket.socket, deadline: float) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(max(deadline - time.monotonic(), 0) * 1000))


def _complaint(site: Bridge, what: str) -> str:
    return (
        f"{what} from the container does not come out at the gateway; does this machine's firewall refuse what arrives "
        f"at {site.bridge}? Have it accept what comes in from interfaces whose names begin with bj-"
    )
