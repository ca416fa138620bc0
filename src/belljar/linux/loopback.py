"""The loopback interface of a sealed sandbox: its only one, and the way to everywhere.

Every address in the world is routed to `lo` as a local one. A packet to anywhere thus has a route (a program would
give up without one) and meets the packet filter, which says where it really goes. IPv6 offers no other way: a
default route on `lo` that is not local becomes an unreachable one.

The interface has an address of its own beside 127.0.0.1 and ::1, and packets to the outside leave from it: a
program that looks for an address before it uses a family (AI_ADDRCONFIG) finds one.
"""

from ipaddress import IPv4Address, IPv6Address
from typing import Final

from belljar.linux import programs

OWN_IPV4: Final = IPv4Address("192.0.0.8")
"""The dummy address of RFC 7600: a source, but nobody's destination, and outside the pool 198.18.0.0/15."""

OWN_IPV6: Final = IPv6Address("fd62:656c:6c6a::1")
"""A unique local address, alone in its /64."""

# The kernel gets an IPv6 address ready in the background. Without `nodad` it may be too early to use it as a source,
# and without `noprefixroute` the address itself may be unreachable for a moment.
_COMMANDS: Final = f"""\
link set lo up
address replace {OWN_IPV4}/32 dev lo
address replace {OWN_IPV6}/128 dev lo nodad noprefixroute
route replace local 0.0.0.0/0 dev lo table main src {OWN_IPV4}
route replace local ::/0 dev lo table main src {OWN_IPV6}
"""


def bring_up() -> None:
    """Bring the loopback interface up in the network namespace of the calling thread."""
    programs.run("ip", "-batch", "-", text=_COMMANDS)
