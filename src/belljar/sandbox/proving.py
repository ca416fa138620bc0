"""The first probe: what was armed is tried, before anything untrusted runs in it.

Rules that are installed prove nothing; a packet that arrives where it should does. Each is sent to an address of the
documentation ranges, in a namespace that has no interface to leave by, and has to come out at the gateway's listeners.
"""

import errno
import socket
import struct
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from belljar.errors import BelljarError
from belljar.gateway.io.origin import Endpoint, original_destination
from belljar.gateway.listeners import Listeners
from belljar.linux.descriptors import is_readable
from belljar.linux.interfaces import others_up

_ELSEWHERE: Final[dict[int, str]] = {socket.AF_INET: "192.0.2.1", socket.AF_INET6: "2001:db8::1"}
_PORT: Final = 9
_DNS: Final = 53
_SECONDS: Final = 5.0
_MESSAGE: Final = b"belljar: first probe"
_RESET: Final = struct.pack("ii", 1, 0)
"""So that the kernel does not remember the connection for a minute, in which nobody could have the port."""


class ProofError(BelljarError):
    """A sandbox is not sealed as it should be, and must not be used."""


def check_alone() -> None:
    """Make sure that the network namespace of the calling thread has no way out. Raises ProofError."""
    if up := others_up():
        raise ProofError(
            f"the sandbox cannot be sealed: its network has an interface beside loopback: {', '.join(up)}\n"
            "Nothing but the backend may join it to a network."
        )


def prove(listeners: Listeners) -> None:
    """Try the seal from inside. For a thread in the network namespace that was armed. Raises ProofError.

    Where a sandbox is adopted, its agent may be at work: it can keep the proof from being had, but nobody waiting.
    """
    try:
        for family, tcp, dns, udp in zip(_ELSEWHERE, listeners.tcp, listeners.dns_udp, listeners.udp, strict=True):
            _prove_stream(family, tcp)
            _prove_datagram(family, _DNS, dns)
            _prove_datagram(family, _PORT, udp)
    except OSError as error:  # there is no port left to send from, say
        raise ProofError(f"the sandbox's seal cannot be tried: {error}") from error


def _prove_stream(family: int, listener: socket.socket) -> None:
    wanted = Endpoint(ip_address(_ELSEWHERE[family]), _PORT)
    with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        if client.connect_ex((str(wanted.address), _PORT)) not in (0, errno.EINPROGRESS):
            raise ProofError(f"a connection to {wanted.address} does not reach the gateway's listener; {_REMEDY}")
        for _ in _arrivals(listener):
            accepted, peer = listener.accept()
            with accepted:  # it may be the agent's, where a sandbox is adopted
                if peer == client.getsockname() and original_destination(accepted) == wanted:
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    return
    raise ProofError(f"a connection to {wanted.address} does not reach the gateway's listener; {_REMEDY}")


def _prove_datagram(family: int, port: int, listener: socket.socket) -> None:
    address = _ELSEWHERE[family]
    with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as client:
        try:
            client.sendto(_MESSAGE, (address, port))
        except PermissionError:
            raise ProofError(f"a datagram to {address} port {port} is refused; {_REMEDY}") from None
        for _ in _arrivals(listener):
            message, peer = listener.recvfrom(len(_MESSAGE))
            if message == _MESSAGE and peer[1] == client.getsockname()[1]:
                return
    raise ProofError(f"a datagram to {address} port {port} does not reach the gateway's listener; {_REMEDY}")


def _arrivals(listener: socket.socket) -> Iterator[None]:
    """Yield whenever something is there to be taken, until time is over: what an agent sends may never end."""
    deadline = time.monotonic() + _SECONDS
    while (left := deadline - time.monotonic()) > 0 and is_readable(listener.fileno(), left):
        yield


_REMEDY: Final = "does a firewall or a security module of this machine reach into sandboxes? See `belljar doctor`"
