"""What is valid but probably not meant: entries without effect, entries that open more than they seem to."""

from collections.abc import Iterable, Iterator, Sequence

from belljar.policy.addresses import can_never_be_opened, carries_ipv4_only
from belljar.policy.language.problems import Problem
from belljar.policy.model import (
    Action,
    DomainPattern,
    Egress,
    Mode,
    Network,
    Policy,
    PortRange,
    Protocol,
    Rule,
    Scope,
)
from belljar.policy.reserved import HOST_NAMES, SERVICE_HOST, is_loopback_name, is_never_name, is_service_name

_WIDE_V4, _WIDE_V6 = 8, 16


def advise(policy: Policy) -> Iterator[Problem]:
    """Yield a warning for each oddity of a policy."""
    yield from _idle_lists(policy)
    yield from _repeated_entries(policy)
    blocks = policy.mode is Mode.BLOCK_ALL
    if blocks:
        yield from _domains_without_effect("egress.allowed_domains", policy.egress.allowed_domains)
        yield from _cidr_grants("egress.allowed_cidrs", policy.egress.allowed_cidrs)
        yield from _udp_ports("egress.allowed_ports", policy.egress.allowed_ports)
    for index, rule in enumerate(policy.rules):
        if rule.action is Action.ALLOW:
            yield from _allow_rule(f"rules[{index}]", rule, blocks=blocks)


def _idle_lists(policy: Policy) -> Iterator[Problem]:
    idle = "denied" if policy.mode is Mode.BLOCK_ALL else "allowed"
    for kind in ("domains", "cidrs", "ports"):
        if getattr(policy.egress, f"{idle}_{kind}"):
            yield Problem(f"egress.{idle}_{kind}", f"has no effect in mode {policy.mode}; it is kept as it is")
    if policy.presets and policy.mode is Mode.ALLOW_ALL:
        yield Problem("presets", f"has no effect in mode {policy.mode}; it is kept as it is")


def _repeated_entries(policy: Policy) -> Iterator[Problem]:
    for key in Egress._fields:
        entries = getattr(policy.egress, key)
        if len(set(entries)) == len(entries):
            continue
        first_at: dict[object, int] = {}
        for index, entry in enumerate(entries):
            if (first := first_at.setdefault(entry, index)) != index:
                yield Problem(f"egress.{key}[{index}]", f'"{entry}" repeats entry {first}; delete one of them')


def _domains_without_effect(where: str, patterns: Iterable[DomainPattern]) -> Iterator[Problem]:
    exact = Scope.EXACT
    for index, pattern in enumerate(patterns):
        if is_service_name(pattern.name) and pattern.name not in HOST_NAMES:
            yield Problem(
                f"{where}[{index}]",
                f'"{pattern}" has no effect: names under belljar.internal are opened by services alone; list it there',
            )
        elif pattern.scope is not exact:
            continue
        elif pattern.name in HOST_NAMES:
            yield Problem(
                f"{where}[{index}]",
                f'"{pattern}" is the host itself and stays closed; list its port in host_ports',
            )
        elif is_loopback_name(pattern.name):
            yield Problem(
                f"{where}[{index}]",
                f'"{pattern}" is the sandbox itself to programs inside, and opens nothing; for a port of this machine, '
                f"list {pattern.port or 'it'} in host_ports, and use {SERVICE_HOST} inside",
            )
        elif is_never_name(pattern.name):
            yield Problem(
                f"{where}[{index}]",
                f'"{pattern}" means this machine or a metadata service, which no policy opens; delete it',
            )


def _cidr_grants(where: str, networks: Sequence[Network]) -> Iterator[Problem]:
    for index, network in enumerate(networks):
        place = f"{where}[{index}]"
        if network.is_loopback:
            yield Problem(
                place,
                f'"{network}" is the sandbox itself to programs inside, and opens nothing; for a port of this machine, '
                f"list it in host_ports, and use {SERVICE_HOST} inside",
            )
        elif can_never_be_opened(network):
            yield Problem(place, f'"{network}" is loopback, link-local or reserved, which no policy opens; delete it')
        elif carries_ipv4_only(network):
            yield Problem(
                place, f'"{network}" holds IPv4 addresses in IPv6 form and matches none; write the IPv4 range'
            )
        elif network.prefixlen < (_WIDE_V4 if network.version == 4 else _WIDE_V6):
            yield Problem(
                place,
                f'"{network}" grants {network.num_addresses:.0e} addresses, private ones included; is it meant?',
            )


def _udp_ports(where: str, ports: Sequence[PortRange]) -> Iterator[Problem]:
    for index, entry in enumerate(ports):
        if entry.protocol is Protocol.UDP:
            yield Problem(f"{where}[{index}]", f'"{entry}" has no effect: in block-all no UDP leaves the sandbox')


def _allow_rule(where: str, rule: Rule, *, blocks: bool) -> Iterator[Problem]:
    yield from _domains_without_effect(f"{where}.domains", rule.domains)
    yield from _cidr_grants(f"{where}.cidrs", rule.cidrs)
    if not blocks:
        return
    if rule.protocol is Protocol.UDP:
        yield Problem(f"{where}.protocol", "has no effect: in block-all no UDP leaves the sandbox")
    else:
        yield from _udp_ports(f"{where}.ports", rule.ports)
        if not (rule.domains or rule.cidrs):
            yield Problem(where, "names no destination, so it opens its ports to every public address; is it meant?")
