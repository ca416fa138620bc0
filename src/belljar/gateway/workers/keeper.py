"""Keeping one worker alive, and having it do what is wanted of its sandboxes.

Theory of operation
-------------------
A keeper holds everything that the next worker needs to go on where the last one fell: for each sandbox its listeners,
the memory of its names, and the policy that it is to have. A change is noted down when it is asked for, before any
worker is told. So whatever becomes of workers, no sandbox is ever served with a policy that was replaced.

That a worker lives does not mean that it listens. It may be stopped, starved or stuck, and to the old policy's liking.
So a change has a bound, and fails closed:

1. The worker is told. Most of the time it answers within milliseconds.
2. If it does not (`_HOLD_SECONDS`), it is told to *hold* the sandbox: to cut its flows and to deny everything until the
   change is done. That takes no time, whatever the size of the policy and the number of flows.
3. If it does not answer to that either (`BOUND`), it is killed. The kernel needs nobody's cooperation for that: all
   flows end, and nobody accepts new ones. Its other sandboxes lose their flows, too; but they were not served anyway.

The next worker is given all sandboxes with their latest policies before it serves any. A sandbox whose hand-over costs
several workers their life is set aside: it stays closed, and the others go on.

The end of the channel tells that a worker is lost, whatever killed it; one that is silent for long is killed even if
nobody wants anything of it. If workers die young, the next one is made to wait.
"""

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple

from belljar.gateway.audit.events import HoldCause, SandboxHeld, SandboxInterrupted
from belljar.gateway.audit.log import AuditLog
from belljar.gateway.io.loop import Loop
from belljar.gateway.workers.process import (
    PATIENCE,
    RefusedError,
    WorkerLostError,
    WorkerProcess,
    WorkerSilentError,
)
from belljar.gateway.workers.supervised import PendingPolicy, SupervisedSandbox
from belljar.gateway.workers.waiting import Waiting

BOUND: Final = 2.0
"""Seconds within which a change is in force, or the sandbox closed."""

_HOLD_SECONDS: Final = 1.5
"""A policy with 100,000 entries is compiled by then, if the machine has the time."""

_DEAD_SECONDS: Final = 0.5
_PING_SECONDS: Final = 2.0
_SILENCE: Final = 10.0
_ATTEMPTS: Final = 3
_YOUNG_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


class Start(NamedTuple):
    """What every worker is told first."""

    settings: dict[str, Any]
    on_full: str
    audit: int | None
    broker: int | None
    """A descriptor of the broker's socket."""

    def descriptors(self) -> dict[str, int]:
        """Return what is handed over, by what it is for."""
        held = {"audit": self.audit, "broker": self.broker}
        return {use: descriptor for use, descriptor in held.items() if descriptor is not None}


class Keeper:
    """Sees to it that there is a worker. Everything happens on the loop's thread."""

    def __init__(self, loop: Loop, start: Start, audit: AuditLog | None) -> None:
        self._loop, self._start, self._audit = loop, start, audit
        self._news = Waiting(loop)
        self._worker: WorkerProcess | None = None
        self._last: WorkerProcess | None = None
        self._is_serving = False
        self._has_begun = False
        self._loss = WorkerLostError("not started yet")
        self.sandboxes: dict[str, SupervisedSandbox] = {}

    @property
    def pid(self) -> int | None:
        """The worker's, while there is one that serves."""
        worker = self._worker
        return worker.pid if worker is not None and self._is_serving else None

    async def keep(self) -> None:
        """Start a worker, and another one whenever it is lost, until cancelled."""
        pause = 0.0
        while True:
            born = self._loop.clock()
            try:
                await self._live()
            except WorkerLostError as loss:
                self._note(loss)
            young = self._loop.clock() - born < _YOUNG_SECONDS
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE) if young else 0.0
            await self._loop.sleep(pause)

    def reap(self) -> None:
        """Wait for the end of the last worker; for when nothing is kept any more."""
        if self._last is not None:
            self._last.reap()

    # What is wanted.

    async def open(self, kept: SupervisedSandbox) -> None:
        """Have a new sandbox served. Raises RefusedError and WorkerLostError; then it is forgotten."""
        self.sandboxes[kept.id] = kept
        self._offer(kept)
        change = kept.change
        while not await self._news.until(
            lambda: (change.is_in_force and self._is_serving) or bool(change.error) or change.attempts >= _ATTEMPTS,
            PATIENCE,
        ):
            pass
        if not change.is_in_force:
            del self.sandboxes[kept.id]
            raise change.error or self._loss

    async def change(self, kept: SupervisedSandbox, change: PendingPolicy) -> bool:
        """Put another policy in force and return True, or leave the sandbox closed until it is; within `BOUND`.

        Raises RefusedError; then nothing has changed.
        """
        before, kept.change = kept.change, change
        self._offer(kept)
        if not await self._news.until(lambda: change.is_over, _HOLD_SECONDS):
            await self._hold(kept, change)
        if change.error is not None and kept.change is change:
            kept.change = PendingPolicy(before.policy, before.until)
            self._offer(kept)  # it may have been held
            raise change.error
        return change.is_in_force

    async def end(self, kept: SupervisedSandbox, overdue: PendingPolicy) -> None:
        """Leave a sandbox nothing to reach, unless its policy, which should have been replaced by now, has been."""
        if kept.change is not overdue:
            return
        self._tell_held(kept, "overdue")
        await self.change(kept, PendingPolicy(None))

    async def close(self, kept: SupervisedSandbox) -> None:
        """End everything of one sandbox, within `BOUND`."""
        del self.sandboxes[kept.id]
        worker = self._served_by(kept)
        try:
            if worker is not None:
                await worker.ask("close", patience=BOUND, sandbox=kept.id)
        except WorkerSilentError:
            await self._kill(worker)
        except WorkerLostError:
            pass  # then it is closed already
        finally:
            kept.close()

    async def ask(self, what: str, sandbox: str | None = None) -> Any:
        """Return what the worker says to a question. Raises WorkerSilentError and WorkerLostError."""
        kept = self.sandboxes[sandbox] if sandbox is not None else None
        await self._news.until(lambda: self._is_serving if kept is None else kept.holder is not None, BOUND)
        worker = self._worker if kept is None else kept.holder
        if worker is None:
            raise WorkerSilentError
        return await worker.ask(what, patience=BOUND, sandbox=sandbox)

    async def is_up(self) -> None:
        """Wait for a worker that serves."""
        while not await self._news.until(lambda: self._is_serving, PATIENCE):
            pass

    # What becomes of it.

    def _offer(self, kept: SupervisedSandbox) -> None:
        """Have the worker told of the latest change, unless the sandbox is about to be handed over anyway."""
        worker = self._worker
        if worker is not None and (self._is_serving or kept.holder is worker or kept.openings):
            self._loop.spawn(self._unless_lost(self._put(kept, worker)))

    async def _put(self, kept: SupervisedSandbox, worker: WorkerProcess) -> None:
        """Have the latest change put in force by a worker. Raises WorkerLostError."""
        if self._worker is not worker or self.sandboxes.get(kept.id) is not kept:
            return  # so much can happen before it is our turn
        change, is_opening = kept.change, kept.holder is not worker
        kept.openings += is_opening
        change.attempts += 1
        try:
            change.flows_cut = await kept.put_to(worker)
        except RefusedError as error:
            change.error, change.attempts = error, 0
        except WorkerSilentError:
            worker.kill()
            raise WorkerLostError(await worker.ended()) from None
        else:
            if self._worker is worker:
                change.is_in_force, change.attempts = True, 0
                kept.holder, kept.is_new = worker, False
        finally:
            if self._worker is worker:
                kept.openings -= is_opening
            self._news.look_again()

    async def _hold(self, kept: SupervisedSandbox, change: PendingPolicy) -> None:
        """Close a sandbox whose change takes too long, with the worker's help or without."""
        worker, began = self._served_by(kept), self._loop.clock()
        cause: HoldCause = "slow"
        try:
            if worker is not None:
                await worker.ask("hold", patience=BOUND - _HOLD_SECONDS, sandbox=kept.id, change=change.number)
        except WorkerSilentError:
            cause = "stalled"
            await self._kill(worker)
        except WorkerLostError:
            cause = "stalled"
        left = BOUND - _HOLD_SECONDS - (self._loop.clock() - began)
        if not await self._news.until(lambda: change.is_over, max(left, 0.0)):
            self._tell_held(kept, cause)

    def _served_by(self, kept: SupervisedSandbox) -> WorkerProcess | None:
        """Return the worker that has opened a sandbox, or is about to."""
        return self._worker if kept.holder is not None or kept.openings else None

    async def _kill(self, worker: WorkerProcess | None) -> None:
        """End a worker that does not listen."""
        if worker is not None:
            worker.kill()
            await worker.is_lost_within(_DEAD_SECONDS)

    async def _live(self) -> None:
        """Work with one worker for as long as it lives. Raises WorkerLostError."""
        self._has_begun = False
        worker = self._worker = self._last = WorkerProcess(self._loop)
        try:
            await self._begin(worker)
            self._is_serving = True
            self._news.look_again()
            for kept in self.sandboxes.values():
                if _is_due(kept, worker):
                    self._offer(kept)  # it came at the very last
            await self._attend(worker)
        finally:
            self._worker, self._is_serving = None, False
            for kept in self.sandboxes.values():
                kept.holder, kept.openings, kept.change.is_in_force = None, 0, False
            worker.dismiss()

    async def _begin(self, worker: WorkerProcess) -> None:
        start = self._start
        handed = start.descriptors()
        begin = {"settings": start.settings, "on_full": start.on_full, "handed": list(handed)}
        await self._patiently(worker, worker.ask("begin", list(handed.values()), patience=PATIENCE, **begin))
        self._has_begun = True
        while waiting := [kept for kept in self.sandboxes.values() if _is_due(kept, worker)]:
            await self._put(waiting[0], worker)
        await self._patiently(worker, worker.ask("serve", patience=PATIENCE))

    async def _attend(self, worker: WorkerProcess) -> None:
        """Wait for a worker's end. Raises WorkerLostError."""
        while not await worker.is_lost_within(_PING_SECONDS):
            await self._patiently(worker, worker.ask("ping", patience=_SILENCE))
        raise WorkerLostError(await worker.ended())

    async def _patiently(self, worker: WorkerProcess, asking: Coroutine[Any, Any, Any]) -> None:
        """Wait for an answer; a worker that gives none is worth nothing. Raises WorkerLostError."""
        try:
            await asking
        except WorkerSilentError:
            worker.kill()
            raise WorkerLostError(await worker.ended()) from None

    async def _unless_lost(self, work: Coroutine[Any, Any, Any]) -> None:
        with suppress(WorkerLostError):  # who keeps the worker will notice, and the next one is told
            await work

    def _note(self, loss: WorkerLostError) -> None:
        """Tell of a loss, and of the sandboxes that have cost too many workers their life."""
        self._loss = loss
        for kept in self.sandboxes.values():
            if kept.is_new:
                kept.change.attempts += not self._has_begun
                continue
            if self._audit is not None:
                self._audit.write(kept.id, SandboxInterrupted(loss.cause))
            if kept.change.attempts == _ATTEMPTS:
                kept.change.attempts += 1  # which is told once
                self._tell_held(kept, "given_up")
        self._news.look_again()

    def _tell_held(self, kept: SupervisedSandbox, cause: HoldCause) -> None:
        if self._audit is not None:
            self._audit.write(kept.id, SandboxHeld(kept.change.generation, cause))


def _is_due(kept: SupervisedSandbox, worker: WorkerProcess) -> bool:
    """Tell whether a sandbox is to be handed over to a worker."""
    is_under_way = kept.holder is worker or kept.openings
    return not is_under_way and kept.change.attempts < _ATTEMPTS and kept.change.error is None
