"""Network policies of sandbox0: ``{mode, egress: {...}}``, with six lists or with ordered traffic rules.

Theory of operation
-------------------
The documents look like Belljar's, and differ in what they mean.

- ``*.x`` covers x as well.
- A name opens every port. Here it opens 80 and 443, unless ports are given.
- In block-all the three ``allowed`` lists are one condition: name *and* address *and* port must fit. A list that is
  not given does not count; one that was given, and of which nothing could be kept, must not be taken for that. Names
  at certain addresses only are said here as "these names, and deny every other address".

`sandbox0_rules` reads the rules.
"""

from collections.abc import Mapping
from typing import Any

from belljar.policy.addresses import AddressClass, classify
from belljar.policy.importers.document import Section
from belljar.policy.importers.findings import WHOLE, Findings, Imported, shown
from belljar.policy.importers.ranges import all_but, within
from belljar.policy.importers.sandbox0_rules import DIALECT, ELSEWHERE, RuleReader, without_udp
from belljar.policy.importers.translate import (
    Destinations,
    EntryReader,
    note_dialled_addresses,
    note_private_addresses,
    note_web_ports,
)
from belljar.policy.model import Action, Egress, Mode, Network, Policy, PortRange, Rule


def import_sandbox0(document: Mapping[str, Any]) -> Imported:
    """Import a policy of sandbox0. Raises InvalidPolicyError."""
    findings = Findings("sandbox0")
    top = Section(WHOLE, document, findings)
    mode = _mode(top, findings)
    egress = top.section("egress")
    top.leave("credential_bindings", "a policy holds no credentials")
    egress.leave("credential_rules", "a policy holds no credentials")
    egress.leave("proxy", "the next proxy on the way is no part of a policy")
    rules = RuleReader(mode, findings)
    restrictions = rules.protocol(egress.items("protocol_rules"))
    traffic = egress.items("traffic_rules")
    if traffic and any(egress.get(key) for key in Egress._fields):
        findings.refuse(
            egress.at("traffic_rules"), "stand beside lists, which sandbox0 refuses too; keep one of the two"
        )
    policy = Policy(mode, rules=rules.traffic(traffic)) if traffic else _Lists(egress, findings).policy(mode)
    if mode is Mode.ALLOW_ALL:
        findings.note(WHOLE, "opens the public internet; private addresses stay closed without allow_private: true")
    egress.close()
    top.close()
    return findings.imported(policy._replace(rules=restrictions + policy.rules))


def _mode(top: Section, findings: Findings) -> Mode:
    value = top.get("mode")
    if isinstance(value, str) and value in tuple(Mode):
        return Mode(value)
    findings.refuse(top.at("mode"), f'is {shown(value)}; sandbox0 knows "block-all" and "allow-all"')
    return Mode.BLOCK_ALL


class _Lists:
    """The six lists."""

    def __init__(self, egress: Section, findings: Findings) -> None:
        self._egress = egress
        self._findings = findings

    def policy(self, mode: Mode) -> Policy:
        idle = "denied" if mode is Mode.BLOCK_ALL else "allowed"
        for kind in ("domains", "cidrs", "ports"):
            self._egress.leave(f"{idle}_{kind}", f"it has no effect in {mode}, neither there nor here")
        return self._block_all() if mode is Mode.BLOCK_ALL else self._allow_all()

    def _allow_all(self) -> Policy:
        denials = EntryReader(DIALECT, self._findings, Action.DENY)
        domains, addresses = denials.destinations(self._egress.items("denied_domains"))
        cidrs = denials.networks(self._egress.items("denied_cidrs"))
        ports = denials.ports(self._egress.items("denied_ports"))
        denied = Egress(denied_domains=domains, denied_cidrs=addresses + cidrs, denied_ports=ports)
        return Policy(Mode.ALLOW_ALL, denied)

    def _block_all(self) -> Policy:
        grants = EntryReader(DIALECT, self._findings, Action.ALLOW)
        given = {key: self._egress.items(key) for key in ("allowed_domains", "allowed_cidrs", "allowed_ports")}
        names = grants.destinations(given["allowed_domains"])
        cidrs = grants.networks(given["allowed_cidrs"])
        ports = grants.ports(given["allowed_ports"])
        ports = without_udp(ports, self._egress.at("allowed_ports"), self._findings)
        for (key, entries), kept in zip(given.items(), (any(names), cidrs, ports), strict=True):
            if entries and not kept:
                self._findings.note(self._egress.at(key), "has no entry left, so nothing is granted at all")
                return Policy(Mode.BLOCK_ALL)
        policy = self._granted(names, cidrs, ports)
        if names.domains and not policy.allow_private:
            note_private_addresses(self._findings)
        if any(names) and not ports:
            note_web_ports(self._findings)
        return policy

    def _granted(self, names: Destinations, cidrs: tuple[Network, ...], ports: tuple[PortRange, ...]) -> Policy:
        if any(names) and cidrs:
            return self._names_at_addresses(names, cidrs, ports)
        if ports and not (any(names) or cidrs):
            at = self._egress.at("allowed_ports")
            self._findings.note(at, "stands alone, so its ports are open to every public address")
            return Policy(Mode.BLOCK_ALL, rules=(Rule(Action.ALLOW, ports=ports),))
        if cidrs:
            note_dialled_addresses(self._findings)
            return Policy(Mode.BLOCK_ALL, Egress(allowed_cidrs=cidrs, allowed_ports=ports))
        return Policy(Mode.BLOCK_ALL, names.granted(ports))

    def _names_at_addresses(
        self, names: Destinations, cidrs: tuple[Network, ...], ports: tuple[PortRange, ...]
    ) -> Policy:
        self._findings.note(
            self._egress.at("allowed_cidrs"),
            "opens nothing to those who dial an address: sandbox0 asks for an allowed name at an allowed address, "
            "and so does the policy",
        )
        inside = tuple(address for address in names.addresses if any(within(address, cidr) for cidr in cidrs))
        if inside != names.addresses:
            at = self._egress.at("allowed_domains")
            self._findings.note(at, "lists addresses that allowed_cidrs does not allow; they were left out")
        egress = names._replace(addresses=inside).granted(ports)
        if any(cidr.prefixlen == 0 for cidr in cidrs):  # which means that every address is allowed
            return Policy(Mode.BLOCK_ALL, egress)
        elsewhere = Rule(Action.DENY, ELSEWHERE, cidrs=all_but(cidrs))
        private = any(classify(cidr.network_address) is AddressClass.PRIVATE for cidr in cidrs)
        return Policy(Mode.BLOCK_ALL, egress, (elsewhere,), allow_private=private)
