"""Arming: a bare network namespace becomes a sealed one, with the gateway's listeners in it.

The order matters. The packet filter comes first, when nothing can be sent yet; then the loopback interface; then the
listeners. Whatever fails, the namespace is closed: there is no interface to leave by, and without listeners nobody
answers. Then it is tried (`proving`), before anything untrusted runs in it. Arming again, after a restart of the
gateway, replaces what is there.
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
from belljar.linux import loopback, transparent
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.nft import sealed
from belljar.linux.programs import ProgramFailedError, ProgramMissingError
from belljar.sandbox.proving import ProofError, check_alone, prove

HTTP_PROXY_PORT: Final = 3128
SOCKS_PORT: Final = 1080

_BACKLOG: Final = 4096


class ArmingError(BelljarError):
    """A sandbox could not be sealed, and must not be used."""


def arm(namespace: NetworkNamespace) -> Listeners:
    """Seal a network namespace, try it, and return the listeners in it. Raises ArmingError, ProofError."""
    with _step("enter its network namespace", "Run as root, or as root of the user namespace that owns it."):
        return namespace.run(arm_here)


def arm_here() -> Listeners:
    """Seal the network namespace of the calling thread, try it, and return the listeners in it.

    Raises ArmingError, ProofError.
    """
    check_alone()
    with _step(
        "install its packet filter", "It takes Linux 5.2 or newer with nf_tables and tproxy, and CAP_NET_ADMIN."
    ):
        sealed.apply(sealed.ruleset())
    with _step("bring up its loopback interface", "It takes IPv4 and IPv6 in the kernel, and CAP_NET_ADMIN."):
        loopback.bring_up()
    remedy = "Nothing else may listen on ports 1080, 3128 and 15001 to 15003 in it, and UDP takes CAP_NET_RAW."
    with _step("bind its listeners", remedy):
        listeners = _bind()
    try:
        prove(listeners)
    except ProofError:
        listeners.close()
        raise
    return listeners


@contextmanager
def _step(what: str, remedy: str) -> Iterator[None]:
    try:
        yield
    except ProgramMissingError as error:
        mend = f"Mend it: {error.remedy('nftables')}"
        raise ArmingError(f"the sandbox cannot be sealed: cannot {what}: {error}\n{mend}") from error
    except (ProgramFailedError, OSError) as error:
        raise ArmingError(f"the sandbox cannot be sealed: cannot {what}: {error}\n{remedy}") from error


def _bind() -> Listeners:
    with ExitStack() as closing:

        def both(kind: int, port: int) -> tuple[socket, ...]:
            return tuple(closing.enter_context(_bound(family, kind, port)) for family in (AF_INET, AF_INET6))

        listeners = Listeners(
            tcp=both(SOCK_STREAM, sealed.TCP_PORT),
            dns_udp=both(SOCK_DGRAM, sealed.DNS_PORT),
            dns_tcp=both(SOCK_STREAM, sealed.DNS_PORT),
            http_proxy=both(SOCK_STREAM, HTTP_PROXY_PORT),
            socks=both(SOCK_STREAM, SOCKS_PORT),
            udp=both(SOCK_DGRAM, sealed.UDP_PORT),
            udp_answers=tuple(
                closing.enter_context(transparent.make_answering(family)) for family in (AF_INET, AF_INET6)
            ),
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
