"""Arming: a bare network namespace becomes a sealed one, with the gateway's listeners in it.

The order matters. The packet filter comes first, when nothing can be sent yet; then the loopback interface; then the
listeners. Whatever fails, the namespace is closed: there is no interface to leave by, and without listeners nobody
answers. Arming again (after a restart of the gateway, or to change the stance on UDP) replaces what is there.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from socket import (
    AF_INET,
    AF_INET6,
    IPPROTO_IPV6,
    IPV6_V6ONLY,
    SO_REUSEADDR,
    SOCK_DGRAM,
    SOCK_STREAM,
    SOL_SOCKET,
    socket,
)
from typing import Final

from belljar.errors import BelljarError
from belljar.gateway.listeners import Listeners
from belljar.linux import loopback, nft, transparent
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.programs import ProgramFailedError, ProgramMissingError

HTTP_PROXY_PORT: Final = 3128
SOCKS_PORT: Final = 1080

_PACKAGES: Final = {"ip": "iproute2", "nft": "nftables"}
_BACKLOG: Final = 4096


class ArmingError(BelljarError):
    """A sandbox could not be sealed, and must not be used."""


def arm(namespace: NetworkNamespace, *, udp: bool) -> Listeners:
    """Seal a network namespace, and return the listeners in it. With `udp` the gateway is given UDP as well.

    Raises ArmingError.
    """
    with _step("enter its network namespace", "Run as root, or as root of the user namespace that owns it."):
        return namespace.run(lambda: arm_here(udp=udp))


def arm_here(*, udp: bool) -> Listeners:
    """Seal the network namespace of the calling thread, and return the listeners in it.

    Raises ArmingError.
    """
    features = "nf_tables and tproxy" if udp else "nf_tables"
    with _step("install its packet filter", f"It takes Linux 5.2 or newer with {features}, and CAP_NET_ADMIN."):
        nft.apply(nft.ruleset(udp=udp))
    with _step("bring up its loopback interface", "It takes IPv4 and IPv6 in the kernel, and CAP_NET_ADMIN."):
        loopback.bring_up()
    remedy = "Nothing else may listen on ports 1080, 3128 and 15001 to 15003 in it."
    with _step("bind its listeners", f"{remedy} UDP takes CAP_NET_RAW, too." if udp else remedy):
        return _bind(udp=udp)


@contextmanager
def _step(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except ProgramMissingError as error:
        install = f"Install it: sudo apt-get install {_PACKAGES[error.program]}"
        raise ArmingError(f"the sandbox cannot be sealed: cannot {what}: {error}\n{install}") from error
    except (ProgramFailedError, OSError) as error:
        raise ArmingError(f"the sandbox cannot be sealed: cannot {what}: {error}\n{remedy}") from error


def _bind(*, udp: bool) -> Listeners:
    with ExitStack() as closing:

        def both(kind: int, port: int) -> tuple[socket, ...]:
            return tuple(closing.enter_context(_bound(family, kind, port)) for family in (AF_INET, AF_INET6))

        answering = (AF_INET, AF_INET6) if udp else ()
        listeners = Listeners(
            tcp=both(SOCK_STREAM, nft.TCP_PORT),
            dns_udp=both(SOCK_DGRAM, nft.DNS_PORT),
            dns_tcp=both(SOCK_STREAM, nft.DNS_PORT),
            http_proxy=both(SOCK_STREAM, HTTP_PROXY_PORT),
            socks=both(SOCK_STREAM, SOCKS_PORT),
            udp=both(SOCK_DGRAM, nft.UDP_PORT) if udp else (),
            udp_answers=tuple(closing.enter_context(transparent.make_answering(family)) for family in answering),
        )
        for listener in listeners.udp:
            transparent.make_transparent(listener)
            transparent.report_destinations(listener)
        closing.pop_all()
    return listeners


def _bound(family: int, kind: int, port: int) -> socket:
    """Make a socket on the loopback address, where redirected packets arrive and whence answers find their way back."""
    bound = socket(family, kind)
    try:
        if family == AF_INET6:
            bound.setsockopt(IPPROTO_IPV6, IPV6_V6ONLY, 1)
        if kind == SOCK_STREAM:  # for UDP the option would let the agent bind the same port, and take our datagrams
            bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        bound.bind(("::1" if family == AF_INET6 else "127.0.0.1", port))
        if kind == SOCK_STREAM:
            bound.listen(_BACKLOG)
        bound.settimeout(0)
    except OSError:
        bound.close()
        raise
    return bound
