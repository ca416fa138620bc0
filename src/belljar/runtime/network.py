"""The network of one sandbox: the policy that was set, what is granted on top of it for a time, and both together."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from belljar.discovery import discover
from belljar.linux.interfaces import own_addresses
from belljar.policy import (
    Action,
    CompiledPolicy,
    InvalidPolicyError,
    Mode,
    Policy,
    Problem,
    ResolvedPolicy,
    policy_from,
    resolve,
)
from belljar.policy.language.entries import EntryError, read_cidr, read_domain
from belljar.policy.language.reading import Reading
from belljar.policy.language.render import to_data
from belljar.policy.model import Egress, PortRange, Rule
from belljar.runtime.deadlines import Deadline
from belljar.runtime.problems import FieldProblem, ProblemError, invalid_policy, refusing
from belljar.sandbox.files.sockets import commanding

_LISTS: Final = ("rules", "presets", "host_ports")

_LATE_SECONDS: Final = 1.5
"""How much later than it should a grant may end before the gateway makes an end of everything."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that holds on this machine, and what is odd about it."""

    resolved: ResolvedPolicy
    warnings: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """A destination that is open for a time."""

    id: str
    allow: str
    seconds: float
    ends: Deadline


@dataclass(frozen=True, slots=True)
class SandboxNetwork:
    """What a sandbox may reach, at one moment."""

    base: ResolvedPolicy
    """The policy as it was set."""

    revision: int
    """Counts how often it was set; what is granted on top of it makes no difference."""

    generation: int
    """Counts what the gateway was told, grants and their ends included."""

    grants: tuple[Grant, ...] = ()

    @property
    def until(self) -> float | None:
        """When the gateway has to have been told of another, lest it lets nothing pass; None if that can last."""
        return min(grant.ends.due for grant in self.grants) + _LATE_SECONDS if self.grants else None

    def resolved(self) -> ResolvedPolicy:
        """Return what the gateway is told. Grants come after the policy's own rules: what these deny stays denied."""
        return self.base.with_more((grant_rule(grant.allow) for grant in self.grants), self.generation)

    def compiled(self) -> CompiledPolicy:
        """Return what the gateway makes of that; with many entries it takes a while."""
        return self.resolved().compile()

    def now(self) -> "SandboxNetwork":
        """Return it without grants that have ended while nobody was there to end them."""
        grants = tuple(grant for grant in self.grants if not grant.ends.is_over)
        return self if grants == self.grants else replace(self, grants=grants, generation=self.generation + 1)

    def closed(self) -> "SandboxNetwork":
        """Return what is to follow if nobody knows what was: nothing may be reached."""
        nothing = resolve(Policy(Mode.BLOCK_ALL), host_addresses=own_addresses())
        return SandboxNetwork(nothing, self.revision + 1, self.generation + 1)

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "policy": self.base.to_data(),
            "revision": self.revision,
            "generation": self.generation,
            "grants": [[grant.id, grant.allow, grant.seconds, grant.ends.at] for grant in self.grants],
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "SandboxNetwork":
        """Return the network that became plain data, without grants that have ended since."""
        grants = (
            Grant(name, allow, seconds, Deadline.remembered(at, seconds)) for name, allow, seconds, at in data["grants"]
        )
        here = {"host_addresses": [str(address) for address in own_addresses()]}
        return cls(
            ResolvedPolicy.from_data(data["policy"] | here),
            data["revision"],
            data["generation"],
            tuple(grant for grant in grants if not grant.ends.is_over),
        )


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a policy has to be held against on this machine."""

    control_port: int | None
    """Where the server listens: no sandbox ever reaches it."""

    state: Path
    """The server's own directory, with its socket."""

    exposed: tuple[Path, ...] = ()
    """Where sandboxes can write: presets believe nothing that is there."""


def prepare(reading: Reading, around: Surroundings, within: str = "") -> Prepared:
    """Read and resolve a document. Raises ProblemError."""
    try:
        document = policy_from(reading)
        return _resolve(document.policy, document.warnings, around, within)
    except InvalidPolicyError as error:
        raise invalid_policy(error, within) from None


def amend(base: Policy, change: dict[str, Any], around: Surroundings) -> Prepared:
    """Add entries to a policy, and take others away. Raises ProblemError."""
    for part in ("add", "remove"):
        if not isinstance(change.get(part, {}), dict):
            raise refusing("invalid_request", [FieldProblem(part, "is not a mapping; write entries of a policy")])
    lists = dict(change.get("remove", {}))
    names = lists.pop("services", [])
    if not isinstance(names, list):
        raise refusing("invalid_request", [FieldProblem("remove.services", "is not a list; write names of services")])
    try:
        added = _fragment(base, change.get("add", {}), "add")
        removed = _fragment(base, lists, "remove")
        policy = _with(_without(base, removed, names), added)
        warnings = policy_from(Reading(to_data(policy))).warnings
        return _resolve(policy, warnings, around, "add")
    except InvalidPolicyError as error:
        raise invalid_policy(error) from None


def grant_rule(allow: str) -> Rule:
    """Return the rule that a grant is. Raises ProblemError."""
    try:
        if "/" in allow or allow.replace(".", "").isdigit() or allow.count(":") > 1:
            return Rule(Action.ALLOW, cidrs=(read_cidr(allow),))
        return Rule(Action.ALLOW, domains=(read_domain(allow, grants=True),))
    except EntryError as error:
        raise refusing("invalid_policy", [FieldProblem("allow", f'"{allow}" {error}')]) from None


def _resolve(policy: Policy, warnings: tuple[Problem, ...], around: Surroundings, within: str) -> Prepared:
    for place, ports in _ports_of_host(policy):
        if around.control_port is not None and ports.first <= around.control_port <= ports.last:
            raise ProblemError(
                "control_port",
                f"{ports} holds {around.control_port}, where this server listens; leave it out, or serve on another "
                "port",
                field=".".join(filter(None, (within, place))),
            )
    commands = [Problem(*found) for found in commanding(policy.services, [around.state])]
    if commands:
        raise invalid_policy(InvalidPolicyError(commands), within)
    asking = partial(discover, exposed=around.exposed)
    resolved = resolve(policy, discover=asking, host_addresses=own_addresses())
    return Prepared(resolved, (*warnings, *resolved.expansion.warnings))


def _ports_of_host(policy: Policy) -> Iterator[tuple[str, PortRange]]:
    for index, ports in enumerate(policy.host_ports):
        yield f"host_ports[{index}]", ports
    for service in policy.services:
        if (port := service.port_of_host) is not None:
            yield f"services.{service.name}", PortRange(port, port)


def _fragment(base: Policy, fragment: dict[str, Any], within: str) -> Policy:
    """Read a document that has no mode of its own."""
    if "mode" in fragment or "allow_private" in fragment:
        raise refusing(
            "invalid_request",
            [FieldProblem(within, "has something that is no list; set the whole policy instead")],
        )
    try:
        return policy_from(Reading({"mode": base.mode.value, **fragment})).policy
    except InvalidPolicyError as error:
        raise invalid_policy(error, within) from None


def _with(policy: Policy, added: Policy) -> Policy:
    egress = {name: _joined(getattr(policy.egress, name), getattr(added.egress, name)) for name in Egress._fields}
    lists: dict[str, Any] = {name: _joined(getattr(policy, name), getattr(added, name)) for name in _LISTS}
    services = {service.name: service for service in (*policy.services, *added.services)}
    return policy._replace(egress=Egress(**egress), services=tuple(services.values()), **lists)


def _without(policy: Policy, removed: Policy, services: list[str]) -> Policy:
    egress = {
        name: _less(getattr(policy.egress, name), getattr(removed.egress, name), f"egress.{name}")
        for name in Egress._fields
    }
    lists: dict[str, Any] = {name: _less(getattr(policy, name), getattr(removed, name), name) for name in _LISTS}
    left = _less(tuple(service.name for service in policy.services), tuple(services), "services")
    kept = tuple(service for service in policy.services if service.name in left)
    return policy._replace(egress=Egress(**egress), services=kept, **lists)


def _joined(entries: tuple[Any, ...], added: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys((*entries, *added)))


def _less(entries: tuple[Any, ...], removed: tuple[Any, ...], place: str) -> tuple[Any, ...]:
    found: Iterable[FieldProblem] = [
        FieldProblem(f"remove.{place}[{index}]", f"{entry} is not in the policy; look at what is")
        for index, entry in enumerate(removed)
        if entry not in entries
    ]
    if found:
        raise refusing("invalid_request", found)
    return tuple(entry for entry in entries if entry not in removed)
