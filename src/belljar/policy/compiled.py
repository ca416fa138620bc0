"""Policies to indexes: everything that a decision needs, looked up rather than searched for.

Theory of operation
-------------------
Rules and the lists that count in the policy's mode (``allowed_*`` in block-all, ``denied_*`` in allow-all) become
clauses. The clauses of a destination are found by its name (`domains`), by its addresses (`cidrs`), or they hold
everywhere (`everywhere`, for entries that name ports or a protocol only). Of those that fit the port, the one with
the lowest order wins; if there is none, the mode decides.
"""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from belljar.names import Address
from belljar.policy import clauses
from belljar.policy.addresses import unwrap
from belljar.policy.clauses import ByCidr, ByDomain, Clause
from belljar.policy.decide import Verdict, decide
from belljar.policy.flow import Flow
from belljar.policy.language.render import to_data
from belljar.policy.match import CidrIndex, DomainIndex, PortIndex, PortSet
from belljar.policy.model import Action, Mode, Policy, Protocol
from belljar.policy.presets import Discover, Expansion, expand, nothing_discovered
from belljar.policy.reserved import HOST_NAMES

if TYPE_CHECKING:
    from belljar.policy.services import Service


class CompiledPolicy(NamedTuple):
    """A policy ready to be asked. Immutable; a change makes a new one with a higher generation."""

    policy: Policy
    mode: Mode
    generation: int
    digest: str
    """SHA-256 of what the policy means here, presets included: equal digests decide alike."""

    expansion: Expansion
    domains: DomainIndex[Clause]
    cidrs: CidrIndex[Clause]
    everywhere: PortIndex[Clause]
    everywhere_by_name: Clause | None
    """What holds everywhere while only a name is asked for."""

    host_ports: PortSet
    services: "Mapping[str, Service]"
    """By the name that each has inside; what a provider may be asked for depends on the mode, too."""

    opened: CidrIndex[Clause]
    """The ranges that were granted by address, so that private addresses inside them are open."""

    denies_ranges: bool
    """Whether addresses are denied that names may lead to: whoever keeps the policy has to know where they lead."""

    host_addresses: frozenset[Address]
    """The addresses of the machine that the gateway runs on: never granted, whatever their class.

    As far as they were known by the time: those that come later, and whole ranges, are told by the flow (`Flow.own`).
    """

    def decide(self, flow: Flow) -> Verdict:
        """Decide a flow."""
        return decide(self, flow)

    def service(self, flow: Flow) -> "Service | None":
        """Return what a flow that was allowed leads to, if that is a service and no destination of the network."""
        if flow.name in HOST_NAMES:
            from belljar.policy.services import Service, ServiceKind  # noqa: PLC0415 - most policies have none

            return Service("host", ServiceKind.HOST_PORT, str(flow.port))
        return self.services.get(flow.name) if flow.name is not None else None

    # What those who keep it have to know of it as a whole. Nobody asks for its mode.

    @property
    def is_open(self) -> bool:
        """Whether the public internet can be reached, but for what is denied."""
        return self.mode is Mode.ALLOW_ALL

    @property
    def allows_udp(self) -> bool:
        """Whether there are datagrams to carry, besides questions for names."""
        return self.is_open

    @property
    def forwards_dns(self) -> bool:
        """Whether questions for other records than addresses are passed on, for names that are allowed."""
        return self.is_open

    @property
    def counts_names(self) -> bool:
        """Whether it is counted how many names are used under a wildcard."""
        return not self.is_open


def compile_policy(
    policy: Policy,
    *,
    generation: int = 1,
    discover: Discover = nothing_discovered,
    host_addresses: Iterable[Address] = (),
) -> CompiledPolicy:
    """Compile a policy. Raises InvalidPolicyError where a preset's hosts cannot be found out."""
    expansion = expand(policy.presets, discover)
    return compile_document(to_data(policy), policy, expansion, generation=generation, host_addresses=host_addresses)


def compile_document(
    document: Mapping[str, Any],
    policy: Policy,
    expansion: Expansion,
    *,
    generation: int,
    host_addresses: Iterable[Address],
) -> CompiledPolicy:
    """Compile a policy, which is also at hand in its normal form, and of which it is known what its presets mean."""
    domains: list[Iterable[ByDomain]] = []
    cidrs: list[ByCidr] = []
    everywhere: list[Clause] = []
    for order, rule in enumerate(policy.rules):
        domains.append(clauses.rule_domains(order, rule))
        cidrs += clauses.rule_cidrs(order, rule)
        everywhere += clauses.rule_everywhere(order, rule)
    if policy.mode is Mode.BLOCK_ALL:
        domains.append(clauses.allowed_domains(policy, expansion))
        cidrs += clauses.allowed_cidrs(policy)
    else:
        domains.append(clauses.denied_domains(policy))
        cidrs += clauses.denied_cidrs(policy)
        everywhere += clauses.denied_ports(policy)
    return CompiledPolicy(
        policy=policy,
        mode=policy.mode,
        generation=generation,
        digest=_digest(document, expansion),
        expansion=expansion,
        domains=DomainIndex(chain.from_iterable(domains)),
        cidrs=CidrIndex(cidrs),
        everywhere=PortIndex((clause.ports, clause) for clause in everywhere),
        everywhere_by_name=next((clause for clause in everywhere if clause.fits(None, None)), None),
        host_ports=PortSet.of(policy.host_ports, bare=(Protocol.TCP,)),
        services={service.host: _in_mode(service, policy.mode) for service in policy.services},
        opened=CidrIndex((network, clause) for network, clause in cidrs if clause.action is Action.ALLOW),
        denies_ranges=any(clause.action is Action.DENY for _, clause in cidrs),
        host_addresses=frozenset(unwrap(address) for address in host_addresses),
    )


def _in_mode(service: "Service", mode: Mode) -> "Service":
    """Return a service as it is in a mode: where the network is open, a provider may reach for it, too."""
    return service._replace(server_tools=True) if mode is Mode.ALLOW_ALL and service.is_broker else service


def _digest(document: Mapping[str, Any], expansion: Expansion) -> str:
    meaning = {
        **document,
        "presets": [[str(entry.pattern) for entry in entries] for entries in expansion.entries],
    }
    import hashlib  # noqa: PLC0415 - OpenSSL, which takes its time to load

    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()
