"""The packet filter and the routes: what they refuse could not leave anyway, as long as there is no other interface.

So nobody outside can see whether they are there. But who is refused by the filter is told so, which differs from what a
packet meets that goes round inside the sandbox and finds nobody.
"""

import errno
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.kit import Finding, Mark, inside, network
from belljar.verify.probes.network.clients import loopback

_FREE_BIND: Final = {4: (socket.IPPROTO_IP, 15), 6: (socket.IPPROTO_IPV6, 78)}
_NOBODY: Final = 9
_MILLISECONDS: Final = 200
_RTF_REJECT: Final = 0x200
_ANYWHERE: Final = ("00000000/00000000", f"{'0' * 32}/00")


@network(6, "packet-filter", "packets of a source that is not inside: a datagram, and an error message (ICMP)")
def packet_filter(mark: Mark) -> Finding:
    with socket.socket(mark.socket_family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(*_FREE_BIND[mark.family], 1)
        sock.bind((mark.address, 0))
        try:
            sock.sendto(mark.token.encode(), (mark.address, places.HTTPS))
        except PermissionError:
            pass
        else:
            return Finding(holds=False, evidence="a datagram was not refused")
    if not _hears_of_nobody(mark, loopback(mark.family)):
        raise RuntimeError("no error message is heard inside, whoever it is for")
    passed = _hears_of_nobody(mark, mark.address)
    return Finding(not passed, "an error message was not refused" if passed else "both are refused")


def _hears_of_nobody(mark: Mark, source: str) -> bool:
    """Send a datagram inside to where nobody is; tell whether the kernel's word of that reaches the source."""
    with socket.socket(mark.socket_family, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(*_FREE_BIND[mark.family], 1)
        sock.bind((source, 0))
        sock.connect((loopback(mark.family), _NOBODY))
        sock.send(b"anybody?")
        answers = select.poll()
        answers.register(sock, select.POLLIN)
        answers.poll(_MILLISECONDS)
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


@inside(31, "routes", "routes other than the one by which everything stays inside")
def routes(_: Mark) -> Finding:
    strange = [route for route in (*_routes_v4(), *_routes_v6()) if route not in _expected()]
    return Finding(not strange, f"there is: {', '.join(strange)}" if strange else "everything is routed to lo")


def _expected() -> set[str]:
    own = [socket.inet_pton(socket.AF_INET6, address).hex() + "/80" for address in ("::1", places.OWN[6])]
    return {f"{destination} lo" for destination in (*_ANYWHERE, *own)}


def _routes_v4() -> Iterator[str]:
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        interface, destination, gateway, _, _, _, _, mask, *_ = line.split()
        yield f"{destination}/{mask} {interface}" + (f" via {gateway}" if int(gateway, 16) else "")


def _routes_v6() -> Iterator[str]:
    for line in Path("/proc/net/ipv6_route").read_text().splitlines():
        destination, length, _, _, gateway, _, _, _, flags, interface = line.split()
        if not int(flags, 16) & _RTF_REJECT:
            yield f"{destination}/{length} {interface}" + (f" via {gateway}" if int(gateway, 16) else "")
