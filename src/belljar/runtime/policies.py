"""Policies of sandboxes that run are changed: written down, put in force, acknowledged.

The database is first. If the server is lost between the two, the next one puts in force what is written down; nobody
was told anything else. A grant that ends is the other way round: the gateway closes it whatever the database says, and
a grant that is over is not adopted.

What is written down is not taken back because the gateway does not do its part: then the sandbox is closed until it
does (`belljar.gateway.workers`).

A policy that cannot be written down is put in force all the same, for it may close something, and an agent can fill the
disk to keep that from happening. The client is told that it is in force and not written down, which is tried again and
again. A server that is started before it has worked leaves the sandbox nothing to reach (`belljar.control.stale`). A
grant only opens: if it cannot be written down, nothing has happened, as if it had been refused.

The gateway is told when the first of the grants should have ended. Should nobody have told it of another policy by
then, it lets nothing pass; so it does not take this server's goodwill, either, to end a grant.
"""

import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from belljar.gateway.service import Acknowledgement
from belljar.gateway.upstream.proxy import check_enforceable
from belljar.gateway.workers.process import RefusedError
from belljar.policy import CompiledPolicy, Problem, to_name
from belljar.policy.language.reading import Reading
from belljar.policy.model import DomainPattern, Scope
from belljar.runtime.context import Context, run_in_thread
from belljar.runtime.deadlines import Deadline
from belljar.runtime.events import GrantClosed, GrantOpened
from belljar.runtime.network import Grant, Prepared, SandboxNetwork, Surroundings, amend, grant_rule, prepare
from belljar.runtime.problems import ProblemError
from belljar.runtime.sandbox import Sandbox, Status
from belljar.runtime.storage import StorageError
from belljar.sandbox.spec import SandboxSpec


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """No other policy than this will be in force."""

    network: SandboxNetwork
    flows_reset: int
    in_force: bool
    """Whether it is by now; if not, the sandbox can reach nothing until it is."""

    warnings: tuple[Problem, ...] = ()
    failure: StorageError | None = None
    """Why it is not written down yet."""


class Networks:
    """Changes what sandboxes may reach."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def prepare(self, reading: Reading, spec: SandboxSpec | None = None, within: str = "") -> Prepared:
        """Read a document, maybe for a sandbox that is yet to be made, and find out what it means here.

        Raises ProblemError.
        """
        around = self._surroundings(spec)
        return await run_in_thread(lambda: prepare(reading, around, within))

    async def amended(self, sandbox: Sandbox, change: dict[str, Any]) -> Prepared:
        """Return what the policy of a sandbox would be with some entries more or less. Raises ProblemError."""
        base, around = sandbox.network.base, self._surroundings()
        return await run_in_thread(lambda: amend(base.policy(), change, around))

    async def replace(self, sandbox: Sandbox, prepared: Prepared, if_match: str | None) -> PolicyChange:
        """Put another policy in the place of that of a sandbox, and end what was granted on top of it."""
        async with sandbox.network_lock:
            check_match(sandbox, if_match)
            return await self._set(sandbox, prepared, grants=())

    async def amend(self, sandbox: Sandbox, change: dict[str, Any], if_match: str | None) -> PolicyChange:
        """Add entries to the policy of a sandbox, or take some away."""
        async with sandbox.network_lock:
            prepared = await self.amended(sandbox, change)
            check_match(sandbox, if_match)
            return await self._set(sandbox, prepared, grants=sandbox.network.grants)

    async def grant(self, sandbox: Sandbox, allow: str, seconds: float) -> tuple[Grant, PolicyChange]:
        """Open a destination for a time. Raises ProblemError, also if that would open nothing."""
        rule = grant_rule(allow)
        async with sandbox.network_lock:
            grant = Grant(f"gr-{secrets.token_hex(4)}", allow, seconds, Deadline.after(seconds))
            network = replace(sandbox.network, grants=(*sandbox.network.grants, grant))
            if exact := [pattern for pattern in rule.domains if pattern.scope is Scope.EXACT]:
                await run_in_thread(lambda: _check_effect(network.compiled(), allow, exact))
            change = await self._enforce(sandbox, network, unwritten=False)
        self._context.deadline_set.set()
        self._context.events.tell(sandbox.id, GrantOpened(grant.id, allow, seconds))
        return grant, change

    async def end_grants(
        self, sandbox: Sandbox, over: Callable[[Grant], bool], cause: Literal["request", "time"]
    ) -> PolicyChange | None:
        """Close what was opened for a time, if any of it is over.

        Raises ProblemError if the end came by request, and is not written down: it would begin again otherwise.
        """
        async with sandbox.network_lock:
            ended = [grant for grant in sandbox.network.grants if over(grant)]
            if not ended:
                return None
            left = tuple(grant for grant in sandbox.network.grants if grant not in ended)
            network = replace(sandbox.network, grants=left, generation=sandbox.network.generation + 1)
            told = await self._put_in_force(sandbox, network)
            sandbox.network = network
            failure = None
            try:
                await self._context.store.save(sandbox.to_row())
            except StorageError as error:
                if cause == "request":  # of others, what is written down says when they end
                    self._context.store.stale.add(sandbox.id)
                    failure = error
        self._tell_closed(sandbox, ended, cause)
        return _written(PolicyChange(network, told.flows_cut, told.in_force, failure=failure))

    async def close(self, sandbox: Sandbox, why: str) -> None:
        """Leave a sandbox nothing to reach until somebody sets another policy, and note why. Raises BelljarError."""
        async with sandbox.network_lock:
            sandbox.detail, ended = why, sandbox.network.grants
            await self._enforce(sandbox, await run_in_thread(sandbox.network.closed), unwritten=True)
        self._tell_closed(sandbox, ended, "replaced")

    async def write_down(self, sandbox: Sandbox) -> None:
        """Write down what is in force, and could not be written down. Raises StorageError."""
        async with sandbox.network_lock:
            if sandbox.id in self._context.store.stale:
                await self._context.store.save(sandbox.to_row())

    def _surroundings(self, requested: SandboxSpec | None = None) -> Surroundings:
        """Return what a policy is checked against: this server, and where its sandboxes can write."""
        context = self._context
        specs = [sandbox.spec for sandbox in context.sandboxes.values()]
        exposed = tuple(place for spec in (requested, *specs) if spec is not None for place in spec.writable)
        return Surroundings(context.control_port, context.state, exposed)

    async def _set(self, sandbox: Sandbox, prepared: Prepared, grants: tuple[Grant, ...]) -> PolicyChange:
        ended = [grant for grant in sandbox.network.grants if grant not in grants]
        network = replace(sandbox.network, base=prepared.resolved, revision=sandbox.network.revision + 1, grants=grants)
        change = await self._enforce(sandbox, network, unwritten=True)
        self._tell_closed(sandbox, ended, "replaced")
        return _written(replace(change, warnings=prepared.warnings))

    async def _enforce(self, sandbox: Sandbox, network: SandboxNetwork, *, unwritten: bool) -> PolicyChange:
        """Write a policy down, and put it in force; with `unwritten` also if it cannot be written down."""
        self._context.find_alive(sandbox.id)
        before, network = sandbox.network, replace(network, generation=sandbox.network.generation + 1)
        check_enforceable(network.base, self._context.settings)
        sandbox.network, failure = network, None
        try:
            try:
                await self._context.store.save(sandbox.to_row())
            except StorageError as error:
                if not unwritten:
                    raise
                self._context.store.stale.add(sandbox.id)
                failure = error
            told = await self._put_in_force(sandbox, network)
        except (StorageError, RefusedError):
            sandbox.network = before
            with suppress(StorageError):
                await self._context.store.save(sandbox.to_row())
            raise
        return PolicyChange(network, told.flows_cut, told.in_force, failure=failure)

    async def _put_in_force(self, sandbox: Sandbox, network: SandboxNetwork) -> Acknowledgement:
        if sandbox.status is Status.CLOSED:  # nobody serves it; this is what it begins with
            return Acknowledgement(network.generation, 0, in_force=False)
        gateway = self._context.gateway
        try:
            return await run_in_thread(
                lambda: gateway.change_policy(sandbox.id, network.resolved(), until=network.until)
            )
        except KeyError:
            raise ProblemError("sandbox_not_ready", "the sandbox is being deleted, and reaches nothing") from None

    def _tell_closed(
        self, sandbox: Sandbox, grants: Iterable[Grant], cause: Literal["request", "time", "replaced"]
    ) -> None:
        for grant in grants:
            self._context.events.tell(sandbox.id, GrantClosed(grant.id, grant.allow, cause))


def etag(network: SandboxNetwork) -> str:
    """Return the tag of a policy as it was set."""
    return f'"{network.revision}"'


def _written(change: PolicyChange) -> PolicyChange:
    """Return a change if it is written down. Raises ProblemError if it is not."""
    if change.failure is None:
        return change
    force = "in force" if change.in_force else "yet to be put in force, and until then nothing can be reached"
    raise ProblemError(
        "not_written_down",
        f"generation {change.network.generation} is {force}, but a server that is started again would not know it, and "
        f"leave the sandbox nothing to reach; it is written down as soon as this works: {change.failure}",
    )


def check_match(sandbox: Sandbox, if_match: str | None) -> None:
    """Make sure that a client has seen the policy that it is about to change. Raises ProblemError."""
    if if_match is None or if_match.strip() == "*":
        return
    tags = [tag.strip() for tag in if_match.split(",")]
    if etag(sandbox.network) not in tags:
        raise ProblemError(
            "policy_changed",
            f"the policy is now {etag(sandbox.network)}, and not {if_match!a}; get it, look at it, and try again",
        )


def _check_effect(compiled: CompiledPolicy, allow: str, patterns: Iterable[DomainPattern]) -> None:
    """Make sure that a grant of one name opens it; a rule of the policy may deny it all the same."""
    for pattern in patterns:
        verdict = compiled.decide(to_name(pattern.name, pattern.port or 443))
        if not verdict.allowed:
            raise ProblemError(
                "grant_without_effect",
                f"{allow} stays closed, by {verdict.rule or verdict.reason}: {verdict.sentence}; change that first",
                field="allow",
            )
