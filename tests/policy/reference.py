"""A second implementation of the decision, written from the design: lists, loops and nothing clever.

It shares the values of `belljar.policy.model` with the first one and no code: names are compared label by label,
ranges with the standard library's ``in``, ports by counting, IPv4 is taken out of IPv6 byte by byte.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network

from belljar.names import Address
from belljar.policy import Action, Flow, Mode, Policy, Protocol
from belljar.policy.model import DomainPattern, Network, PortRange, Rule, Scope


def _networks(text: str) -> list[Network]:
    return [ip_network(entry) for entry in text.split()]


# The destinations that stay closed, as the list of ways out has them; those in PRIVATE can be opened.
PRIVATE = _networks("10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fc00::/7")
NEVER = _networks(
    """
    0.0.0.0/8 127.0.0.0/8 169.254.0.0/16 192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 224.0.0.0/4 240.0.0.0/4
    255.255.255.255/32 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32
    ::/128 ::1/128 fe80::/10 ff00::/8 64:ff9b:1::/48
    fd00:ec2::/32 fd20:ce::254/128 fd00:c1::a9fe:a9fe/128 fd00:42::42/128
    """
)
DOCUMENTATION = _networks("192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32")

HOST_NAMES = ["host.belljar.internal", "host.docker.internal"]
NEVER_NAMES = [
    "metadata",
    "metadata.google.internal",
    "instance-data",
    "instance-data.ec2.internal",
    "host.containers.internal",
    "gateway.docker.internal",
]

Outcome = tuple[str, str]
"""Action and reason."""


def inside(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks if network.version == address.version)


def unwrapped(address: Address) -> Address:
    """Take the IPv4 address out of an IPv6 one, by its bytes."""
    if isinstance(address, IPv4Address) or address in (IPv6Address("::"), IPv6Address("::1")):
        return address
    octets = address.packed
    for prefix in ("00" * 12, "00" * 10 + "ffff", "00" * 8 + "ffff0000", "0064ff9b" + "00" * 8):
        if octets[:12] == bytes.fromhex(prefix):
            return IPv4Address(octets[12:])
    if octets[:2] == b"\x20\x02":
        return IPv4Address(octets[2:6])
    if octets[:4] == b"\x20\x01\x00\x00":
        return IPv4Address(bytes(octet ^ 0xFF for octet in octets[12:]))
    return address


def address_class(address: Address) -> str:
    """Classify the addresses that tests use; registries that no vector names are left out."""
    address = unwrapped(address)
    if inside(address, NEVER):
        return "never"
    if inside(address, PRIVATE):
        return "private"
    if address.version == 6 and address not in ip_network("2000::/3"):
        return "never"
    return "public"


def covers(pattern: DomainPattern, name: str, *, broad: bool) -> bool:
    """Compare a pattern with a name, label by label from the end."""
    wanted, labels = pattern.name.split("."), name.split(".")
    if labels[-len(wanted) :] != wanted:
        return False
    is_below = len(labels) > len(wanted)
    if pattern.scope is Scope.BELOW:
        return is_below
    return not is_below or broad or pattern.scope is Scope.WITHIN


def has_port(ranges: Sequence[PortRange], flow: Flow, bare: Sequence[Protocol]) -> bool:
    assert flow.port is not None
    return any(
        flow.port in range(entry.first, entry.last + 1)
        and flow.protocol in ([entry.protocol] if entry.protocol else bare)
        for entry in ranges
    )


WEB = [PortRange(80, 80), PortRange(443, 443)]
EVERY = [PortRange(1, 65535)]
TCP = [Protocol.TCP]
BOTH = [Protocol.TCP, Protocol.UDP]


def own(pattern: DomainPattern) -> list[PortRange]:
    return [PortRange(pattern.port, pattern.port)] if pattern.port else []


def rule_matches(rule: Rule, flow: Flow) -> bool:
    allows = rule.action is Action.ALLOW
    bare = [rule.protocol] if rule.protocol else TCP if allows else BOTH
    if not rule.domains and not rule.cidrs:
        return has_port(rule.ports or EVERY, flow, bare)
    name = flow.name or (None if allows else flow.claimed)
    if name is not None:
        for pattern in rule.domains:
            ports = own(pattern) or rule.ports or (WEB if allows else EVERY)
            if covers(pattern, name, broad=not allows) and has_port(ports, flow, bare):
                return True
    return matches_address(rule.cidrs, flow, allows=allows) and has_port(rule.ports or EVERY, flow, bare)


def matches_address(networks: Sequence[Network], flow: Flow, *, allows: bool) -> bool:
    """A grant is for who dials an address, and means what it carries; a denial means any address, in either form."""
    if allows:
        return flow.name is None and any(inside(unwrapped(address), networks) for address in flow.addresses)
    return any(inside(form, networks) for address in flow.addresses for form in (address, unwrapped(address)))


def grants_of_lists(policy: Policy, flow: Flow) -> Iterator[str]:
    egress = policy.egress
    if flow.name is not None:
        for pattern in egress.allowed_domains:
            ports = own(pattern) or egress.allowed_ports or WEB
            if covers(pattern, flow.name, broad=False) and has_port(ports, flow, TCP):
                yield "allowed_domain"
    by_address = matches_address(egress.allowed_cidrs, flow, allows=True)
    if by_address and has_port(egress.allowed_ports or EVERY, flow, TCP):
        yield "allowed_cidr"


def denials_of_lists(policy: Policy, flow: Flow) -> Iterator[str]:
    egress = policy.egress
    name = flow.name or flow.claimed
    if name is not None:
        for pattern in egress.denied_domains:
            if covers(pattern, name, broad=True) and has_port(own(pattern) or EVERY, flow, BOTH):
                yield "denied_domain"
    if matches_address(egress.denied_cidrs, flow, allows=False):
        yield "denied_cidr"
    if has_port(egress.denied_ports, flow, BOTH):
        yield "denied_port"


def is_never_name(name: str) -> bool:
    return name in NEVER_NAMES or name.rsplit(".", maxsplit=1)[-1] == "localhost"


def is_closed_name(name: str) -> bool:
    return name.rsplit(".", maxsplit=1)[-1] == "internal" or any(
        covers(DomainPattern(inner, Scope.WITHIN), name, broad=False)
        for inner in ("kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    )


def names_it(policy: Policy, flow: Flow) -> bool:
    """Tell whether the first entry that names the destination of a flow, for its port, is one that allows."""
    for rule in policy.rules:
        if (rule.domains or rule.cidrs) and rule_matches(rule, flow):
            return rule.action is Action.ALLOW
    return policy.mode is Mode.BLOCK_ALL and any(grants_of_lists(policy, flow))


def opens_private(policy: Policy, flow: Flow, address: Address) -> bool:
    """A range in allowed_cidrs opens its addresses; a rule opens them for the ports it allows."""
    if policy.allow_private or (
        policy.mode is Mode.BLOCK_ALL and inside(unwrapped(address), policy.egress.allowed_cidrs)
    ):
        return True
    return any(
        inside(unwrapped(address), rule.cidrs)
        and has_port(rule.ports or EVERY, flow, [rule.protocol] if rule.protocol else TCP)
        for rule in policy.rules
        if rule.action is Action.ALLOW
    )


def closed_to_all(policy: Policy, flow: Flow, host_addresses: Sequence[Address]) -> str | None:
    """Return the reason for which no entry can open a flow."""
    if flow.name is not None and flow.claimed is not None and flow.name != flow.claimed:
        return "name_mismatch"
    if policy.mode is Mode.BLOCK_ALL and flow.protocol is Protocol.UDP:
        return "udp_blocked"
    name = flow.name or flow.claimed
    if name is not None and is_never_name(name):
        return "reserved_name"
    if flow.name not in HOST_NAMES:
        for address in flow.addresses:
            if address_class(address) == "never" or address in flow.own:
                return "reserved_address"
            if unwrapped(address) in map(unwrapped, host_addresses):
                return "reserved_address"
    return None


def closed_until_named(policy: Policy, flow: Flow) -> str | None:
    """Return the reason for which a flow that is granted needs an opening of its own and has none."""
    if flow.name is not None and is_closed_name(flow.name) and not names_it(policy, flow):
        return "reserved_name"
    for address in flow.addresses:
        if address_class(address) == "private" and not opens_private(policy, flow, address):
            return "reserved_address"
    return None


def reference(policy: Policy, flow: Flow, host_addresses: Sequence[Address] = ()) -> Outcome:
    """Decide a connection."""
    if reason := closed_to_all(policy, flow, host_addresses):
        return "deny", reason
    rule = next((rule for rule in policy.rules if rule_matches(rule, flow)), None)
    if rule is not None and rule.action is Action.DENY:
        return "deny", "denied_by_rule"
    blocks = policy.mode is Mode.BLOCK_ALL
    if rule is None and not blocks:
        for denial in denials_of_lists(policy, flow):
            return "deny", denial
    if flow.name in HOST_NAMES:
        opened = has_port(policy.host_ports, flow, TCP)
        return ("allow", "allowed_host_port") if opened else ("deny", "host_port_not_allowed")
    if flow.name is not None and flow.name.split(".")[-2:] == ["belljar", "internal"]:
        opened = flow.protocol is Protocol.TCP and any(
            flow.name.split(".") == [service.name, "belljar", "internal"] and flow.port == service.at
            for service in policy.services
        )
        return ("allow", "allowed_service") if opened else ("deny", "service_not_allowed")
    grants = ["allowed_by_rule"] if rule else list(grants_of_lists(policy, flow)) if blocks else ["allowed_by_default"]
    if not grants:
        return "deny", why_not_granted(policy, flow)
    if reason := closed_until_named(policy, flow):
        return "deny", reason
    return "allow", grants[0]


def why_not_granted(policy: Policy, flow: Flow) -> str:
    """Tell a destination that is granted for other ports from one that is not granted at all."""
    granting = [rule for rule in policy.rules if rule.action is Action.ALLOW]
    patterns = [*policy.egress.allowed_domains, *(pattern for rule in granting for pattern in rule.domains)]
    networks = [*policy.egress.allowed_cidrs, *(network for rule in granting for network in rule.cidrs)]
    by_name = flow.name is not None and any(covers(pattern, flow.name, broad=False) for pattern in patterns)
    if by_name or matches_address(networks, flow, allows=True):
        return "port_not_allowed"
    return "not_allowed_address" if flow.name is None else "not_allowed_domain"
