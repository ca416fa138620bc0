"""Rules and lists to clauses: an action for a destination, with the ports it speaks of.

Grants are narrow and denials broad, and this is the place where that is made so: a domain in a denial covers what
is below it too, and the name that older clients make of the same letters (`names.older_spelling`); a bare port means
TCP in a grant, TCP and UDP in a denial; a granted domain without a port means 80 and 443, a denied one every port.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from belljar.names import older_spelling
from belljar.policy.match import PortSet
from belljar.policy.model import Action, DomainPattern, Network, Policy, PortRange, Protocol, Rule, Scope
from belljar.policy.presets import Expansion
from belljar.policy.reasons import Reason


class Clause(NamedTuple):
    """What the policy says to the destinations under which the clause is filed."""

    order: int
    """Rules count up from 0 as they stand; the entries of all lists come after the last rule."""

    action: Action
    ports: PortSet
    reason: Reason
    place: str
    """Where in the document it comes from, without the number of the entry."""

    entry: int

    def fits(self, port: int | None, protocol: Protocol | None) -> bool:
        """Tell whether the clause speaks of a port; with none given yet, whether it settles the matter already."""
        if port is not None and protocol is not None:
            return self.ports.has(port, protocol)
        return self.action is Action.ALLOW or self.ports.is_everything()

    def opens(self, port: int | None, protocol: Protocol | None) -> bool:
        """Tell whether a grant by CIDR opens private addresses to names: a list does, a rule for its own ports."""
        return self.reason is Reason.ALLOWED_CIDR or self.fits(port, protocol)


ByDomain: TypeAlias = tuple[DomainPattern, Clause]
ByCidr: TypeAlias = tuple[Network, Clause]

_TCP: Final = (Protocol.TCP,)
_BOTH: Final = (Protocol.TCP, Protocol.UDP)
_EVERY: Final = (PortRange(0, 65535),)  # a connection to port 0 can be asked for, so a denial covers it
_WEB: Final = (PortRange(80, 80), PortRange(443, 443))


def rule_domains(order: int, rule: Rule) -> Iterator[ByDomain]:
    """Yield the clauses of a rule that are filed under names."""
    allows = rule.action is Action.ALLOW
    for pattern in rule.domains:
        ranges = _own_port(pattern) or rule.ports or (_WEB if allows else _EVERY)
        clause = _rule_clause(order, rule, ranges)
        yield from ((each, clause) for each in ((pattern,) if allows else _broad(pattern)))


def rule_cidrs(order: int, rule: Rule) -> Iterator[ByCidr]:
    """Yield the clauses of a rule that are filed under addresses."""
    clause = _rule_clause(order, rule, rule.ports or _EVERY)
    yield from ((network, clause) for network in rule.cidrs)


def rule_everywhere(order: int, rule: Rule) -> Iterator[Clause]:
    """Yield the clause of a rule that names no destination."""
    if not (rule.domains or rule.cidrs):
        yield _rule_clause(order, rule, rule.ports or _EVERY)


def allowed_domains(policy: Policy, expansion: Expansion) -> Iterator[ByDomain]:
    """Yield the grants by name: of the list, and of the presets."""
    last, allow, reason = len(policy.rules), Action.ALLOW, Reason.ALLOWED_DOMAIN
    default = PortSet.of(policy.egress.allowed_ports or _WEB, bare=_TCP)
    for index, pattern in enumerate(policy.egress.allowed_domains):
        ports = PortSet.of(_own_port(pattern), bare=_TCP) if pattern.port else default
        yield pattern, Clause(last, allow, ports, reason, "egress.allowed_domains", index)
    for index, entries in enumerate(expansion.entries):
        for entry in entries:
            ports = PortSet.of(_own_port(entry.pattern), bare=_TCP)
            yield entry.pattern, Clause(last, allow, ports, reason, "presets", index)


def allowed_cidrs(policy: Policy) -> Iterator[ByCidr]:
    """Yield the grants by address."""
    last = len(policy.rules)
    ports = PortSet.of(policy.egress.allowed_ports or _EVERY, bare=_TCP)
    for index, network in enumerate(policy.egress.allowed_cidrs):
        yield network, Clause(last, Action.ALLOW, ports, Reason.ALLOWED_CIDR, "egress.allowed_cidrs", index)


def denied_domains(policy: Policy) -> Iterator[ByDomain]:
    """Yield the denials by name."""
    last = len(policy.rules)
    every = PortSet.of(_EVERY, bare=_BOTH)
    for index, pattern in enumerate(policy.egress.denied_domains):
        ports = PortSet.of(_own_port(pattern), bare=_BOTH) if pattern.port else every
        clause = Clause(last, Action.DENY, ports, Reason.DENIED_DOMAIN, "egress.denied_domains", index)
        yield from ((each, clause) for each in _broad(pattern))


def denied_cidrs(policy: Policy) -> Iterator[ByCidr]:
    """Yield the denials by address."""
    last = len(policy.rules)
    every = PortSet.of(_EVERY, bare=_BOTH)
    for index, network in enumerate(policy.egress.denied_cidrs):
        yield network, Clause(last, Action.DENY, every, Reason.DENIED_CIDR, "egress.denied_cidrs", index)


def denied_ports(policy: Policy) -> Iterator[Clause]:
    """Yield the denials by port."""
    last = len(policy.rules)
    for index, entry in enumerate(policy.egress.denied_ports):
        ports = PortSet.of((entry,), bare=_BOTH)
        yield Clause(last, Action.DENY, ports, Reason.DENIED_PORT, "egress.denied_ports", index)


def _rule_clause(order: int, rule: Rule, ranges: tuple[PortRange, ...]) -> Clause:
    allows = rule.action is Action.ALLOW
    bare = (rule.protocol,) if rule.protocol else _TCP if allows else _BOTH
    return Clause(
        order=order,
        action=rule.action,
        ports=PortSet.of(ranges, bare=bare),
        reason=Reason.ALLOWED_BY_RULE if allows else Reason.DENIED_BY_RULE,
        place="rules",
        entry=order,
    )


def _own_port(pattern: DomainPattern) -> tuple[PortRange, ...]:
    return (PortRange(pattern.port, pattern.port),) if pattern.port else ()


def _broad(pattern: DomainPattern) -> Iterator[DomainPattern]:
    """Yield what a pattern means in a denial: also what is below it, and also as older clients spell it."""
    name, scope, port = pattern
    scope = Scope.WITHIN if scope is Scope.EXACT else scope
    yield DomainPattern(name, scope, port)
    if (older := older_spelling(name)) is not None:
        yield DomainPattern(older, scope, port)
