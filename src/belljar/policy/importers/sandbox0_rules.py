"""Rules of sandbox0: traffic rules, in order, and protocol rules.

In a traffic rule, name, address, port and application protocol must all fit. A rule of Belljar takes names and
addresses as alternatives and knows no application protocols. So an allow rule with more conditions than can be said
here is left out, and a deny rule denies more.

Protocol rules restrict what may be asked of a host that traffic rules open. Here a host is open or closed, so it is
closed.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeAlias

from belljar.policy.importers.document import Section
from belljar.policy.importers.findings import Findings, SourcePlace, shown
from belljar.policy.importers.translate import (
    WEB_PORTS,
    Dialect,
    EntryReader,
    note_dialled_addresses,
    note_private_addresses,
    note_web_ports,
)
from belljar.policy.language.entries import EntryError, read_rule_name
from belljar.policy.model import Action, Mode, PortRange, Protocol, Rule, Scope

DIALECT: Final = Dialect({Scope.EXACT: Scope.EXACT, Scope.BELOW: Scope.WITHIN})

ELSEWHERE: Final = "every other address"
"""The name of a rule that is made here, and so cannot be that of another."""

_MATCHERS: Final = ("domains", "cidrs", "ports")

Given: TypeAlias = Mapping[str, list[tuple[SourcePlace, Any]]]


def without_udp(ports: tuple[PortRange, ...], place: SourcePlace, findings: Findings) -> tuple[PortRange, ...]:
    """Leave out what block-all does not open, with a note."""
    kept = tuple(entry for entry in ports if entry.protocol is not Protocol.UDP)
    if kept != ports:
        findings.note(place, "no longer opens UDP: in block-all, none leaves the sandbox")
    return kept


class RuleReader:
    """Reads the rules of one document."""

    def __init__(self, mode: Mode, findings: Findings) -> None:
        self._mode = mode
        self._findings = findings
        self._readers = {action: EntryReader(DIALECT, findings, action) for action in Action}
        self._names = {ELSEWHERE}

    def traffic(self, items: Iterable[tuple[SourcePlace, Any]]) -> tuple[Rule, ...]:
        """Read traffic rules."""
        rules = self._all(items, self._traffic_rule)
        granted = [rule for rule in rules if rule.action is Action.ALLOW]
        if any(rule.domains or not rule.cidrs for rule in granted):
            note_private_addresses(self._findings)
        if any(rule.cidrs for rule in granted):
            note_dialled_addresses(self._findings)
        return rules

    def protocol(self, items: Iterable[tuple[SourcePlace, Any]]) -> tuple[Rule, ...]:
        """Read protocol rules, as rules that deny the hosts they restrict."""
        return self._all(items, self._protocol_rule)

    def _all(
        self, items: Iterable[tuple[SourcePlace, Any]], read: Callable[[Section], Rule | None]
    ) -> tuple[Rule, ...]:
        rules = (read(Section(place, item, self._findings)) for place, item in items)
        return tuple(rule for rule in rules if rule is not None)

    def _traffic_rule(self, section: Section) -> Rule | None:
        action, name = section.get("action"), section.get("name")
        given = {key: section.items(key) for key in _MATCHERS}
        beyond = ["appProtocols"] if section.items("app_protocols") else []
        beyond += section.unread()
        if action not in ("allow", "deny"):
            self._findings.refuse(section.at("action"), f'is {shown(action)}; sandbox0 knows "allow" and "deny"')
            return None
        rule = self._matching(Action(action), given, section.at("ports"))
        check = self._allows_no_more if rule.action is Action.ALLOW else self._denies_no_less
        return rule._replace(name=self._name(section, name)) if check(section.place, rule, given, beyond) else None

    def _protocol_rule(self, section: Section) -> Rule | None:
        given = {"domains": section.items("domains"), "cidrs": [], "ports": section.items("ports")}
        rule = self._matching(Action.DENY, given, section.at("ports"))
        if not _matches_something(rule):
            self._findings.refuse(section.place, "restricts requests to every host; name its domains, or delete it")
            return None
        self._findings.note(
            section.place, "restricts requests, which a policy cannot do; so the policy denies the hosts it names"
        )
        return rule._replace(name=self._name(section, section.get("name")))

    def _matching(self, action: Action, given: Given, ports_at: SourcePlace) -> Rule:
        reader = self._readers[action]
        domains, addresses = reader.destinations(given["domains"])
        ports = reader.ports(given["ports"])
        if action is Action.ALLOW and self._mode is Mode.BLOCK_ALL:
            ports = without_udp(ports, ports_at, self._findings)
        if action is Action.ALLOW and addresses and not given["ports"]:
            # An address that stood among the names must not open more ports than a name does.
            ports = WEB_PORTS
        return Rule(action, None, domains, addresses + reader.networks(given["cidrs"]), ports)

    def _allows_no_more(self, place: SourcePlace, rule: Rule, given: Given, beyond: list[str]) -> bool:
        kept = {"domains": rule.domains or rule.cidrs, "cidrs": rule.cidrs, "ports": rule.ports}
        emptied = [key for key in _MATCHERS if given[key] and not kept[key]]
        if beyond:
            why = f"has conditions that a rule cannot have here ({', '.join(map(shown, beyond))})"
        elif given["domains"] and given["cidrs"]:
            why = "asks for a name at an address, and a rule here would open either"
        elif emptied:
            why = f"has nothing left in its {emptied[0]}"
        elif not _matches_something(rule):
            why = "names nothing"
        else:
            if given["domains"] and not given["ports"]:
                note_web_ports(self._findings)
            return True
        self._findings.lost(place, Action.ALLOW, "the rule", why)
        return False

    def _denies_no_less(self, place: SourcePlace, rule: Rule, given: Given, beyond: list[str]) -> bool:
        if not _matches_something(rule):
            self._findings.lost(place, Action.DENY, "the rule", "names no domains, cidrs or ports")
            return False
        if beyond:
            conditions = ", ".join(map(shown, beyond))
            self._findings.note(place, f"denies without the conditions that a rule cannot have here ({conditions})")
        if given["domains"] and given["cidrs"]:
            self._findings.note(place, "denies its domains and its cidrs, each without the other")
        return True

    def _name(self, section: Section, name: object) -> str | None:
        with suppress(EntryError):
            if (readable := read_rule_name(name)) not in self._names:
                self._names.add(readable)
                return readable
        if name:
            self._findings.note(section.at("name"), f"{shown(name)} was left out: it stands twice or cannot be a name")
        return None


def _matches_something(rule: Rule) -> bool:
    return bool(rule.domains or rule.cidrs or rule.ports)
