"""The packet filter of a sealed sandbox: one static table, installed in one transaction.

Theory of operation. Every packet of the sandbox is made inside it, so the output hook sees them all. *Inside* are
the loopback addresses and the sandbox's own one (`belljar.linux.loopback`); what goes there stays there untouched,
and an agent's own servers work as ever. Of the rest

- DNS, over UDP or TCP and to whatever resolver, inside or not, is redirected to the gateway's DNS listeners;
- TCP (and MPTCP, which is TCP to the kernel's filters) is redirected to the gateway's transparent listeners, which
  ask conntrack for the original destination;
- UDP is let through to the loopback interface, where `tproxy` hands it to the gateway's transparent listeners with its
  destination intact. Only packets from an inside source go there, and others are refused, DNS included: an answer of
  the gateway to a source that the agent made up (IP_FREEBIND takes no privilege) would come back to it as a request;
- everything else (ICMP, SCTP, DCCP, UDP-Lite, raw) is refused.

Refused means: the sender has EPERM at once, and an ICMP error as well. Nothing is dropped in silence, and the
policy of the filter is to drop what no rule knows. The filter is a second wall: there is no interface to leave by.

The table is static. What the policy says is the gateway's business.
To install it again it is flushed, not deleted: that keeps the counters, and on a fresh namespace it is three times
as quick, because the kernel waits for deletions.
"""

import json
from typing import Final, NamedTuple

from belljar.linux import programs
from belljar.linux.loopback import OWN_IPV4, OWN_IPV6

TCP_PORT: Final = 15001
DNS_PORT: Final = 15002
UDP_PORT: Final = 15003

_TABLE: Final = """\
table inet belljar
flush table inet belljar
table inet belljar {{
    set inside4 {{
        type ipv4_addr
        flags interval
        elements = {{ 127.0.0.0/8, {OWN_IPV4} }}
    }}
    set inside6 {{
        type ipv6_addr
        elements = {{ ::1, {OWN_IPV6} }}
    }}
    counter udp_refused {{
    }}
    counter other_refused {{
    }}
    chain to_gateway {{
        type nat hook output priority -100; policy accept;
        meta l4proto {{ tcp, udp }} th dport 53 redirect to :{DNS_PORT}
        ip daddr @inside4 accept
        ip6 daddr @inside6 accept
        meta l4proto tcp redirect to :{TCP_PORT}
    }}
    chain seal {{
        type filter hook output priority 0; policy drop;
        ip saddr != @inside4 udp dport {DNS_PORT} counter name udp_refused reject with icmpx port-unreachable
        ip6 saddr != @inside6 udp dport {DNS_PORT} counter name udp_refused reject with icmpx port-unreachable
        ip daddr @inside4 accept
        ip6 daddr @inside6 accept
        ip saddr @inside4 meta l4proto udp accept
        ip6 saddr @inside6 meta l4proto udp accept
        meta l4proto udp counter name udp_refused reject with icmpx port-unreachable
        counter name other_refused reject with icmpx admin-prohibited
    }}
    chain udp_to_gateway {{
        type filter hook prerouting priority -150; policy accept;
        ip daddr @inside4 accept
        ip6 daddr @inside6 accept
        meta nfproto ipv4 meta l4proto udp tproxy ip to 127.0.0.1:{UDP_PORT} accept
        meta nfproto ipv6 meta l4proto udp tproxy ip6 to [::1]:{UDP_PORT} accept
    }}
}}
"""


def ruleset() -> str:
    """Return the table as text."""
    return _TABLE.format(OWN_IPV4=OWN_IPV4, OWN_IPV6=OWN_IPV6, DNS_PORT=DNS_PORT, TCP_PORT=TCP_PORT, UDP_PORT=UDP_PORT)


def apply(rules: str) -> None:
    """Install a table in the network namespace of the calling thread, in place of the one that is there."""
    programs.run("nft", "-f", "-", text=rules)


class Refused(NamedTuple):
    """How many packets the filter has refused since it was first installed."""

    udp: int
    other: int


def refused() -> Refused:
    """Read the counters of the table in the network namespace of the calling thread."""
    listing = json.loads(programs.run("nft", "-j", "list", "counters", "table", "inet", "belljar"))["nftables"]
    counts = {item["counter"]["name"]: item["counter"]["packets"] for item in listing if "counter" in item}
    return Refused(counts["udp_refused"], counts["other_refused"])
