"""The network of one sandbox: the policy that was set, what is granted on top of it for a time, and both together."""

from collections.abc import Iterable
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
from belljar.policy.model import Egress, Rule
from belljar.runtime.deadlines import Deadline
from belljar.runtime.problems import FieldProblem, ProblemError, invalid_policy, refusing

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


def prepare(reading: Reading, control_port: int | None, exposed: Iterable[Path] = (), within: str = "") -> Prepared:
    """Read and resolve a document; presets ask this machine, but not where sandboxes can write. Raises ProblemError."""
    try:
        document = policy_from(reading)
        return _resolve(document.policy, document.warnings, control_port, exposed, within)
    except InvalidPolicyError as error:
        raise invalid_policy(error, within) from None


def amend(base: Policy, change: dict[str, Any], control_port: int | None, exposed: Iterable[Path] = ()) -> Prepared:
    """Add entries to a policy, and take others away. Raises ProblemError."""
    try:
        added = _fragment(base, change.get("add", {}), "add")
        removed = _fragment(base, change.get("remove", {}), "remove")
        policy = _with(_without(base, removed), added)
        warnings = policy_from(Reading(to_data(policy))).warnings
        return _resolve(policy, warnings, control_port, exposed, "add")
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


def _resolve(
    policy: Policy, warnings: tuple[Problem, ...], control_port: int | None, exposed: Iterable[Path], within: str
) -> Prepared:
    for index, ports in enumerate(policy.host_ports):
        if control_port is not None and ports.first <= control_port <= ports.last:
            place = ".".join(filter(None, (within, f"host_ports[{index}]")))
            raise ProblemError(
                "control_port",
                f"{ports} holds {control_port}, where this server listens; leave it out, or serve on another port",
                field=place,
            )
    asking = partial(discover, exposed=tuple(exposed))
    resolved = resolve(policy, discover=asking, host_addresses=own_addresses())
    return Prepared(resolved, (*warnings, *resolved.expansion.warnings))


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
    return policy._replace(egress=Egress(**egress), **lists)


def _without(policy: Policy, removed: Policy) -> Policy:
    egress = {
        name: _less(getattr(policy.egress, name), getattr(removed.egress, name), f"egress.{name}")
        for name in Egress._fields
    }
    lists: dict[str, Any] = {name: _less(getattr(policy, name), getattr(removed, name), name) for name in _LISTS}
    return policy._replace(egress=Egress(**egress), **lists)


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
