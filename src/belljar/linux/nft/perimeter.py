"""The packet filter around containers that have a network of their own, in the host's network namespace.

Theory of operation. Each container is alone on a bridge, and whatever it sends arrives at the host on that interface.
One table, `inet belljar_perimeter`, is for all of them: base chains that look an interface up, and chains of each
container, `BELLJAR_<the first 12 digits of its id>` and three beside it. Of what comes from a container

- at the very door (`BELLJAR_<id>`) IPv6, IP options and made-up sources are dropped, and everything is refused but TCP
  and DNS;
- DNS, to whatever resolver, and all TCP are led to the gateway's sockets (`_TO_GATEWAY`), which are bound to the
  bridge's address. It comes before the engine's own translation, and what was translated once is not again;
- what arrives at the host is refused unless it was led there (`_IN`): a connection to one of the gateway's sockets that
  was dialled directly, or one to a service of the host, has no translation. What was led there finds sockets that are
  bound to that one address (`_DOORS`): a service of the host that is bound to all addresses, and has got the port of a
  gateway that died, gets nothing;
- nothing is forwarded, in either direction, and nobody but the container gets to the bridge's address. The host itself
  sends nothing to a container but answers.

A drop is final, whoever else accepts: neither the engine's rules nor the host's can open what is closed here, though
they can close what is open. But with `nft flush ruleset` root takes down this wall together with all others, and then
`forbid_forwarding` is the one that is left: a container gets to the services of the host, and no further.
"""

import json
from collections.abc import Iterator
from ipaddress import IPv4Address
from typing import Any, Final, NamedTuple

from belljar.linux import asroot
from belljar.linux.programs import ProgramFailedError

TABLE: Final = "belljar_perimeter"
HTTP_PROXY_PORT: Final = 3128
SOCKS_PORT: Final = 1080
MOST_CONNECTIONS: Final = 32768
"""That the host keeps in mind of a container, those that have just ended included: its table has room for so many."""

_DIGITS: Final = 12
_NO_TABLE: Final = "No such file or directory"

_COMMON: Final = """\
table inet {TABLE} {{
    set bridges {{
        type ifname
    }}
    set gateways {{
        type ipv4_addr
    }}
    map sending {{
        type ifname : verdict
    }}
    map leading {{
        type ifname : verdict
    }}
    map reaching {{
        type ifname : verdict
    }}
    chain from_containers {{
        type filter hook prerouting priority raw; policy accept;
    }}
    chain to_gateway {{
        type nat hook prerouting priority dstnat - 10; policy accept;
    }}
    chain to_host {{
        type filter hook input priority filter - 10; policy accept;
    }}
    chain through_host {{
        type filter hook forward priority filter - 10; policy accept;
    }}
    chain from_host {{
        type filter hook output priority filter - 10; policy accept;
    }}
    chain answers {{
    }}
}}
flush chain inet {TABLE} from_containers
flush chain inet {TABLE} to_gateway
flush chain inet {TABLE} to_host
flush chain inet {TABLE} through_host
flush chain inet {TABLE} from_host
flush chain inet {TABLE} answers
table inet {TABLE} {{
    chain from_containers {{
        iifname vmap @sending
    }}
    chain to_gateway {{
        iifname vmap @leading
    }}
    chain to_host {{
        iifname vmap @reaching
        ip daddr @gateways reject with icmp admin-prohibited
    }}
    chain through_host {{
        iifname @bridges drop
        oifname @bridges drop
    }}
    chain from_host {{
        oifname @bridges goto answers
    }}
    chain answers {{
        ct direction reply ct status dnat accept
        icmp type destination-unreachable accept
        tcp flags & rst == rst accept
        drop
    }}
}}
"""

_OF_ONE: Final = """\
table inet {TABLE} {{
    chain {chain} {{
    }}
    chain {chain}_TO_GATEWAY {{
    }}
    chain {chain}_IN {{
    }}
    chain {chain}_DOORS {{
    }}
}}
flush chain inet {TABLE} {chain}
flush chain inet {TABLE} {chain}_TO_GATEWAY
flush chain inet {TABLE} {chain}_IN
flush chain inet {TABLE} {chain}_DOORS
table inet {TABLE} {{
    chain {chain} {{
        meta nfproto != ipv4 drop
        ip hdrlength != 5 drop
        ip saddr != {address} drop
        meta l4proto tcp accept
        udp dport 53 accept
        meta l4proto udp counter reject with icmp port-unreachable
        counter reject with icmp admin-prohibited
        drop
    }}
    chain {chain}_TO_GATEWAY {{
        tcp dport 53 dnat ip to {gateway}:{doors.dns_tcp}
        udp dport 53 dnat ip to {gateway}:{doors.dns_udp}
        ip daddr {gateway} tcp dport {HTTP_PROXY_PORT} dnat ip to {gateway}:{doors.http_proxy}
        ip daddr {gateway} tcp dport {SOCKS_PORT} dnat ip to {gateway}:{doors.socks}
        meta l4proto tcp dnat ip to {gateway}:{doors.tcp}
    }}
    chain {chain}_IN {{
        ct state new ct count over {MOST_CONNECTIONS} counter drop
        ct direction original ct status dnat ip daddr {gateway} goto {chain}_DOORS
        meta l4proto tcp counter reject with tcp reset
        counter reject with icmp port-unreachable
        drop
    }}
    chain {chain}_DOORS {{
        tcp dport {{ {tcp_ports} }} ct state established accept
        socket wildcard 1 counter drop
        tcp dport {{ {tcp_ports} }} accept
        udp dport {doors.dns_udp} accept
        counter drop
    }}
}}
add element inet {TABLE} bridges {{ "{bridge}" comment "{owner}" }}
add element inet {TABLE} gateways {{ {gateway} comment "{bridge}" }}
add element inet {TABLE} sending {{ "{bridge}" : goto {chain} }}
add element inet {TABLE} leading {{ "{bridge}" : goto {chain}_TO_GATEWAY }}
add element inet {TABLE} reaching {{ "{bridge}" : goto {chain}_IN }}
"""

_REMOVAL: Final = """\
delete element inet {TABLE} sending {{ "{bridge}" }}
delete element inet {TABLE} leading {{ "{bridge}" }}
delete element inet {TABLE} reaching {{ "{bridge}" }}
delete element inet {TABLE} gateways {{ {gateway} }}
delete element inet {TABLE} bridges {{ "{bridge}" }}
delete chain inet {TABLE} {chain}
delete chain inet {TABLE} {chain}_TO_GATEWAY
delete chain inet {TABLE} {chain}_IN
delete chain inet {TABLE} {chain}_DOORS
"""


class PerimeterPorts(NamedTuple):
    """The ports of the gateway's sockets."""

    tcp: int
    dns_udp: int
    dns_tcp: int
    http_proxy: int
    socks: int


class Around(NamedTuple):
    """A container that rules are around."""

    chain: str
    bridge: str
    gateway: IPv4Address
    owner: str
    """Whoever has put them there, in whatever words."""


def chain_of(container: str) -> str:
    """Return the name of the chain of a container, by its id."""
    return f"BELLJAR_{container[:_DIGITS]}"


def ruleset(around: Around, address: IPv4Address, doors: PerimeterPorts) -> str:
    """Return rules for a container with an address as text: one transaction, in place of those that are there."""
    tcp_ports = sorted({doors.tcp, doors.dns_tcp, doors.http_proxy, doors.socks})
    return _COMMON.format(TABLE=TABLE) + _OF_ONE.format(
        TABLE=TABLE,
        **around._asdict(),
        address=address,
        doors=doors,
        tcp_ports=", ".join(map(str, tcp_ports)),
        HTTP_PROXY_PORT=HTTP_PROXY_PORT,
        SOCKS_PORT=SOCKS_PORT,
        MOST_CONNECTIONS=MOST_CONNECTIONS,
    )


def apply(rules: str) -> None:
    """Install rules. Raises what `asroot.run` does."""
    asroot.run("nft", "-f", "-", text=rules)


def forbid_forwarding(bridge: str) -> None:
    """Have the kernel forward nothing that arrives from a bridge, whatever becomes of all rules.

    Raises what `asroot.run` does.
    """
    asroot.run("sysctl", "-q", "-w", f"net.ipv4.conf.{bridge}.forwarding=0")


def installed() -> list[Around]:
    """Return every container that rules are around, whoever's it is. Raises what `asroot.run` does."""
    try:
        listing = json.loads(asroot.run("nft", "-j", "list", "table", "inet", TABLE))["nftables"]
    except ProgramFailedError as error:
        if _NO_TABLE in str(error):
            return []
        raise
    elements = {
        found["name"]: found.get("elem", [])
        for item in listing
        for found in (item.get("set") or item.get("map"),)
        if found is not None
    }
    owners, bridges = dict(_commented(elements["bridges"])), dict(_commented(elements["gateways"]))
    gateways = {bridge: gateway for gateway, bridge in bridges.items()}
    chains = {bridge: verdict["goto"]["target"] for bridge, verdict in elements["sending"]}
    return [Around(chain, bridge, IPv4Address(gateways[bridge]), owners[bridge]) for bridge, chain in chains.items()]


def remove(around: Around) -> None:
    """Take away the rules around a container. Raises what `asroot.run` does."""
    rules = _REMOVAL.format(TABLE=TABLE, **around._asdict())
    asroot.run("nft", "-f", "-", text=rules)


def _commented(elements: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    return ((element["elem"]["val"], element["elem"]["comment"]) for element in elements)
