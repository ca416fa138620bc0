"""A policy of which nothing is left to find out: what is written down, and what is told to those who enforce it.

Its document is plain data in its normal form, as `render.to_data` returns it. It was checked when it was read, and is
not checked again: only what we have written ourselves is read here (`belljar.control.database`, and what the supervisor
tells its workers). What its presets mean was found out by asking the tools of this machine, once; so the answers go
along.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Any, NamedTuple

from belljar.names import Address
from belljar.policy.compiled import CompiledPolicy, compile_document
from belljar.policy.language.normal import normal_policy, normal_port
from belljar.policy.language.render import rule_to_data, to_data
from belljar.policy.model import Action, DomainPattern, Mode, Policy, PortRange, Rule, Scope
from belljar.policy.presets import Discover, Expansion, PresetEntry, expand, nothing_discovered
from belljar.policy.services import Service, service_from_data


class ResolvedPolicy(NamedTuple):
    """A policy, and all that it takes to compile it wherever it is to be enforced. Immutable."""

    document: Mapping[str, Any]
    expansion: Expansion
    host_addresses: tuple[Address, ...]
    """The addresses of the machine that the gateway runs on."""

    generation: int

    @property
    def host_ports(self) -> tuple[PortRange, ...]:
        """The host's services that can be reached."""
        return tuple(map(normal_port, self.document.get("host_ports", ())))

    @property
    def services(self) -> tuple[Service, ...]:
        """The services that have a name of their own."""
        return tuple(service_from_data(*entry) for entry in self.document.get("services", {}).items())

    @property
    def denies_ranges(self) -> bool:
        """Whether addresses are denied that names may lead to; see `CompiledPolicy.denies_ranges`."""
        listed = self.document["mode"] == Mode.ALLOW_ALL and "denied_cidrs" in self.document.get("egress", {})
        rules = self.document.get("rules", ())
        return listed or any(rule["action"] == Action.DENY and "cidrs" in rule for rule in rules)

    def policy(self) -> Policy:
        """Return the document as values; with many entries that takes a while."""
        return normal_policy(self.document)

    def compile(self) -> CompiledPolicy:
        """Return what answers questions; with many entries that takes a while."""
        return compile_document(
            self.document,
            self.policy(),
            self.expansion,
            generation=self.generation,
            host_addresses=self.host_addresses,
        )

    def with_more(self, rules: Iterable[Rule], generation: int) -> "ResolvedPolicy":
        """Return another generation of it, with more rules after its own."""
        added = list(map(rule_to_data, rules))
        document = {**self.document, "rules": [*self.document.get("rules", ()), *added]} if added else self.document
        return self._replace(document=document, generation=generation)

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "document": self.document,
            "presets": [[_entry_to_data(entry) for entry in entries] for entries in self.expansion.entries],
            "generation": self.generation,
            "host_addresses": [str(address) for address in self.host_addresses],
        }

    @classmethod
    def of(cls, compiled: CompiledPolicy) -> "ResolvedPolicy":
        """Return what a policy was compiled from, to be enforced elsewhere."""
        addresses = tuple(compiled.host_addresses)
        return cls(to_data(compiled.policy), compiled.expansion, addresses, compiled.generation)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "ResolvedPolicy":
        """Return the policy that became plain data."""
        return cls(
            data["document"],
            Expansion(tuple(tuple(map(_entry_from_data, entries)) for entries in data["presets"])),
            tuple(map(ip_address, data["host_addresses"])),
            data["generation"],
        )


def resolve(
    policy: Policy,
    *,
    generation: int = 1,
    discover: Discover = nothing_discovered,
    host_addresses: Iterable[Address] = (),
) -> ResolvedPolicy:
    """Find out what is left to. Raises InvalidPolicyError where a preset's hosts cannot be found out."""
    return ResolvedPolicy(to_data(policy), expand(policy.presets, discover), tuple(host_addresses), generation)


def _entry_to_data(entry: PresetEntry) -> list[Any]:
    pattern = entry.pattern
    return [pattern.name, pattern.scope, pattern.port, entry.why]


def _entry_from_data(data: list[Any]) -> PresetEntry:
    name, scope, port, why = data
    return PresetEntry(DomainPattern(name, Scope(scope), port), why)
