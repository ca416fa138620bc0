"""The wire between the gateway and the internet, and its memory of what went over it.

The memory is the kernel's: a packet filter on the internet's side adds every destination to a set before anything else
looks at the packet. So it misses nothing, down to a single SYN to a port that nobody listens on. Of TCP it remembers
the attempts to connect only; the last packets of connections that are long over would otherwise turn up in another
test.
"""

from typing import NamedTuple

from belljar.testing.internet.ground import join
from belljar.verify.probes import places
from tests.universe import addresses
from tests.universe.packetfilter import PacketFilter
from tests.universe.places import Place


class Contact(NamedTuple):
    """A destination in the internet that somebody tried to reach."""

    protocol: str
    address: str
    port: int
    """0 where the protocol has none."""


_BLACK_HOLES = f"""\
route add blackhole {addresses.BLACK_HOLE}/32
route add blackhole {addresses.BLACK_HOLE_V6}/128
"""

_FILTER = f"""\
table inet memory {{
    set ports4 {{
        type ipv4_addr . inet_proto . inet_service
        flags dynamic
    }}
    set ports6 {{
        type ipv6_addr . inet_proto . inet_service
        flags dynamic
    }}
    set others4 {{
        type ipv4_addr . inet_proto
        flags dynamic
    }}
    set others6 {{
        type ipv6_addr . inet_proto
        flags dynamic
    }}
    chain arriving {{
        type filter hook prerouting priority -300;
        iifname != wire accept
        icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report }} accept
        tcp flags & (syn | ack) != syn accept
        meta l4proto {{ tcp, udp }} add @ports4 {{ ip daddr . meta l4proto . th dport }}
        meta l4proto {{ tcp, udp }} add @ports6 {{ ip6 daddr . meta l4proto . th dport }}
        meta l4proto != {{ tcp, udp }} add @others4 {{ ip daddr . meta l4proto }}
        meta l4proto != {{ tcp, udp }} add @others6 {{ ip6 daddr . meta l4proto }}
        ip daddr {addresses.REFUSING} meta l4proto tcp reject with tcp reset
    }}
}}
"""

_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmpv6", 132: "sctp"}

_FORGET = "".join(f"flush set inet memory {name}\n" for name in ("ports4", "ports6", "others4", "others6"))


class Wire:
    """The only link there is; it joins the gateway's place and the internet."""

    def __init__(self, gateway: Place, internet: Place) -> None:
        join(gateway.namespace, internet.namespace, places.HOST, places.ROUTER, more=_BLACK_HOLES)
        self._filter = PacketFilter(internet)
        self._filter.run(_FILTER)

    def contacts(self) -> set[Contact]:
        """Return every destination in the internet that somebody tried to reach, whether it answered or not."""
        listing = self._filter.ask("list sets")["nftables"]
        elements = (element["concat"] for item in listing for element in item.get("set", {}).get("elem", []))
        return {
            Contact(_PROTOCOLS.get(number, str(number)), address, *port or [0]) for address, number, *port in elements
        }

    def forget(self) -> None:
        """Start with a clean sheet."""
        self._filter.run(_FORGET)

    def close(self) -> None:
        """Free the packet filter's memory; the link ends with either place."""
        self._filter.close()
