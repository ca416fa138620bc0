"""Sandboxes are made, paused, resumed and deleted, and each step is written down before it is taken.

But no database keeps a sandbox from its end: one that is to be deleted loses its doors first, and is destroyed even if
nothing can be written down. What the backend has forgotten does not come back, whatever a row says.

A sandbox is in the database before its backend hears of it, and until its backend has forgotten it. So whatever a crash
leaves behind has a row that says what to do about it: half made ones are swept, half deleted ones are deleted.
"""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from belljar.errors import BelljarError
from belljar.gateway.upstream.proxy import check_enforceable
from belljar.policy.language.normal import normal_services
from belljar.runtime.context import Context, run_in_thread
from belljar.runtime.deadlines import since_boot
from belljar.runtime.events import SandboxCreated, SandboxDeleted, SandboxPaused, SandboxResumed
from belljar.runtime.network import Prepared, SandboxNetwork
from belljar.runtime.problems import FieldProblem, ProblemError, refusing
from belljar.runtime.sandbox import IdempotentRequest, Sandbox, Status
from belljar.runtime.storage import StorageError
from belljar.sandbox.agentsettings import agent_files
from belljar.sandbox.spec import SandboxSpec

_SECONDS_TO_PAUSE: Final = 2.0


def new_id() -> str:
    """Return a name for a sandbox."""
    return f"sb-{secrets.token_hex(6)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A sandbox as a client wants it, checked."""

    backend: str
    spec: SandboxSpec
    labels: Mapping[str, str]
    ttl: float | None
    hard_ttl: float | None
    prepared: Prepared
    request: IdempotentRequest | None
    id: str = field(default_factory=new_id)


class Sandboxes:
    """Makes sandboxes, and ends them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def create(self, order: Order) -> tuple[Sandbox, bool]:
        """Make a sandbox; it is sealed and ready. Tell whether it is a new one: a repeated request makes none.

        Raises BelljarError; then nothing is left of it.
        """
        if (known := self._by_request(order.request)) is not None:
            async with known.lock:  # it may be in the making
                pass
            return (known, False) if known.id in self._context.sandboxes else await self.create(order)
        sandbox = Sandbox(
            id=order.id,
            backend=order.backend,
            spec=replace(order.spec, environment={}, files={}),
            labels=order.labels,
            network=SandboxNetwork(order.prepared.resolved, revision=1, generation=1),
            request=order.request,
            ttl=order.ttl,
            hard_ttl=order.hard_ttl,
        )
        check_enforceable(order.prepared.resolved, self._context.settings)
        self._context.sandboxes[sandbox.id] = sandbox
        async with sandbox.lock:
            try:
                await self._context.store.save(sandbox.to_row())
                await self._make(sandbox, order.spec)
            except BaseException:
                await self._sweep(sandbox)
                raise
        self._context.deadline_set.set()
        self._context.events.tell(sandbox.id, SandboxCreated(sandbox.backend, dict(sandbox.labels)))
        return sandbox, True

    async def delete(self, sandbox: Sandbox, cause: Literal["request", "hard_ttl", "sweep"]) -> None:
        """End a sandbox, and take away what it held. Raises BelljarError; then it is tried again, and has no doors.

        These go first: whoever has the lock may be waiting for a backend that does not answer.
        """
        if sandbox.status is not Status.CREATING and self._context.sandboxes.get(sandbox.id) is sandbox:
            await self._shut(sandbox)
        async with sandbox.lock:
            if self._context.sandboxes.get(sandbox.id) is not sandbox:
                return  # somebody else was quicker
            if sandbox.status is not Status.DELETING:  # it was just being made, or adopted
                await self._shut(sandbox)
            try:
                await self.destroy(sandbox)
            except StorageError as error:
                raise ProblemError(
                    "not_written_down",
                    f"{sandbox.id} has ended, and reaches nothing; it is forgotten as soon as this works: {error}",
                ) from error
        self._context.events.tell(sandbox.id, SandboxDeleted(cause))

    async def _shut(self, sandbox: Sandbox) -> None:
        """Leave a sandbox without doors for good, and write that down: nobody opens them again after a restart."""
        sandbox.status, sandbox.detail = Status.DELETING, None
        await self._context.stop_serving(sandbox)
        try:
            await self._context.store.save(sandbox.to_row())
        except StorageError:
            self._context.store.stale.add(sandbox.id)  # should the backend fail, too, it is not opened again

    async def destroy(self, sandbox: Sandbox) -> None:
        """Have the backend forget a sandbox that nobody serves, and forget it ourselves."""
        await run_in_thread(lambda: self._context.backends[sandbox.backend].destroy(sandbox.id))
        await self._context.store.remove(sandbox.id)
        self._context.sandboxes.pop(sandbox.id, None)

    async def expire(self, sandbox: Sandbox) -> None:
        """Pause a sandbox whose time to live is over. If the backend takes long for it, nothing is to be reached."""
        pausing = asyncio.ensure_future(self.pause(sandbox, "ttl"))
        is_paused, _ = await asyncio.wait({pausing}, timeout=_SECONDS_TO_PAUSE)
        if not is_paused:
            await self._put_in_force(sandbox, until=since_boot())
        await pausing

    async def pause(self, sandbox: Sandbox, cause: Literal["request", "ttl"]) -> None:
        """Stop every process inside where it is."""
        async with sandbox.lock:
            self._context.find_alive(sandbox.id)
            await self._context.with_backend(sandbox, lambda backend: backend.pause(sandbox.id))
            if sandbox.status in (Status.PAUSED, Status.DELETING):
                return
            if sandbox.status is not Status.CLOSED:  # once its doors can be opened, it is seen to be paused
                sandbox.status = Status.PAUSED
            sandbox.detail = "its time to live was over; resume it, or delete it" if cause == "ttl" else None
            sandbox.expires = None
            await self._context.store.save(sandbox.to_row())
        self._context.events.tell(sandbox.id, SandboxPaused(cause))

    async def resume(self, sandbox: Sandbox) -> None:
        """Let every process inside go on. The time to live begins anew; that until it is deleted does not."""
        async with sandbox.lock:
            self._context.find_served(sandbox.id)
            await self._context.with_backend(sandbox, lambda backend: backend.resume(sandbox.id))
            if sandbox.status in (Status.RUNNING, Status.DELETING):
                return
            if not self._context.gateway.is_in_force(sandbox.id):  # it could not be paused in time
                await self._put_in_force(sandbox)
            hard_expires = sandbox.hard_expires
            sandbox.begin_ttl()
            sandbox.status, sandbox.detail, sandbox.hard_expires = Status.RUNNING, None, hard_expires
            await self._context.store.save(sandbox.to_row())
        self._context.deadline_set.set()
        self._context.events.tell(sandbox.id, SandboxResumed())

    async def refresh(self, sandbox: Sandbox, ttl: float | None, hard_ttl: float | None) -> None:
        """Count the times to live from now on, with other lengths if some are given."""
        async with sandbox.lock:
            self._context.find_served(sandbox.id)
            before = sandbox.ttl, sandbox.hard_ttl, sandbox.expires, sandbox.hard_expires
            sandbox.ttl = sandbox.ttl if ttl is None else ttl or None
            sandbox.hard_ttl = sandbox.hard_ttl if hard_ttl is None else hard_ttl or None
            try:
                check_times(sandbox.ttl, sandbox.hard_ttl)
                sandbox.begin_ttl()
                if sandbox.status is Status.PAUSED:
                    sandbox.expires = None
                await self._context.store.save(sandbox.to_row())
            except BelljarError:
                sandbox.ttl, sandbox.hard_ttl, sandbox.expires, sandbox.hard_expires = before
                raise
        self._context.deadline_set.set()

    async def _put_in_force(self, sandbox: Sandbox, *, until: float | None = None) -> None:
        """Have the gateway told of the policy again, for no longer than until some moment."""
        gateway = self._context.gateway
        async with sandbox.network_lock:
            network = sandbox.network
            with suppress(KeyError):  # nobody serves it
                await run_in_thread(
                    lambda: gateway.change_policy(sandbox.id, network.resolved(), until=until or network.until)
                )

    async def _make(self, sandbox: Sandbox, spec: SandboxSpec) -> None:
        backend, gateway = self._context.backends[sandbox.backend], self._context.gateway
        services = normal_services(sandbox.network.base.document)
        told = replace(spec, files={**spec.files, **agent_files(services)}) if services else spec
        attachment = await run_in_thread(lambda: backend.create(sandbox.id, told))
        try:
            await run_in_thread(lambda: gateway.open(sandbox.id, sandbox.network.base, attachment))
        except BaseException:
            attachment.close()
            raise
        sandbox.status = Status.RUNNING
        sandbox.begin_ttl()
        await self._context.store.save(sandbox.to_row())

    async def _sweep(self, sandbox: Sandbox) -> None:
        """Take away a sandbox that could not be made. What cannot be taken away now is tried again later."""
        sandbox.status = Status.DELETING
        with suppress(BelljarError):
            await self._context.stop_serving(sandbox)
            await self.destroy(sandbox)

    def _by_request(self, request: IdempotentRequest | None) -> Sandbox | None:
        """Return the sandbox that a request has made already. Raises ProblemError if it was another request."""
        if request is None:
            return None
        for sandbox in self._context.sandboxes.values():
            if sandbox.request is not None and sandbox.request.key == request.key:
                if sandbox.request.digest != request.digest:
                    raise ProblemError(
                        "idempotency_key_reused",
                        "a request with this key has asked for something else; use a new key for a new request",
                    )
                return sandbox
        return None


def check_times(ttl: float | None, hard_ttl: float | None) -> None:
    """Make sure that a sandbox is paused before it is deleted. Raises ProblemError."""
    if ttl and hard_ttl and ttl > hard_ttl:
        raise refusing("invalid_request", [FieldProblem("ttl", f"{ttl} is more than hard_ttl, {hard_ttl}; write less")])
