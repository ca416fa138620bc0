"""The supervisor: worker processes that serve sandboxes, and outlive their own crashes.

A sandbox belongs to one worker, that with the fewest. Everything that is decided about it is decided there, with one
set of names, live flows and limits; nothing has to be agreed upon between processes.

The supervisor has a thread of its own. It starts the workers, in the network namespace of the thread that made the
`Workers`, and the kernel ends them with it. It never waits for one of them with anything that concerns another.

A policy may have an end. Whoever has set it is to replace it by then; if that does not happen, for whatever reason, the
sandbox is left nothing to reach until it does.
"""

import os
import tempfile
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final, Literal, Self

from belljar.broker.preamble import limits
from belljar.gateway.audit.log import AuditLog, keep_flushed
from belljar.gateway.audit.metrics import Metrics, merge
from belljar.gateway.audit.observing import Denial, Observer
from belljar.gateway.io.loop import Loop, Task, log_bug
from belljar.gateway.limits import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.service import Acknowledgement, OpenFlow, ServiceUsage
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.upstream.brokerdoor import BrokerDoor, used_by
from belljar.gateway.workers.data import flow_from_data, settings_to_data
from belljar.gateway.workers.keeper import Keeper, Start
from belljar.gateway.workers.namememory import NameMemory
from belljar.gateway.workers.process import WorkerLostError, WorkerSilentError
from belljar.gateway.workers.supervised import PendingPolicy, SupervisedSandbox
from belljar.policy import ResolvedPolicy

_SHUT_DOWN: Final = "all of them have been shut down"
_TICK_SECONDS: Final = 0.5


class Workers:
    """A `GatewayService` of worker processes. No method waits for a worker that does not answer.

    Methods raise KeyError for an unknown sandbox, and WorkerLostError when all has been shut down.
    """

    def __init__(
        self,
        count: int,
        settings: Settings = DEFAULTS,
        *,
        audit: int | None = None,
        on_full: Literal["lose", "block"] = "lose",
        broker_state: Path | None = None,
    ) -> None:
        """`audit` is a descriptor that is open for appending, and stays the caller's; see AuditLog for `on_full`.

        `broker_state` is a directory in which the broker keeps what it has counted; without it, that ends with the
        workers.
        """
        self._loop = Loop()
        log = os.dup(audit) if audit is not None else None
        self._audit = AuditLog(log) if log is not None else None
        self._own_state = tempfile.TemporaryDirectory(prefix="belljar-") if broker_state is None else None
        state = Path(self._own_state.name) if self._own_state is not None else broker_state or Path()
        self._has_counted = any(state.iterdir())
        self._broker = BrokerDoor(self._loop, state, self._note)
        self._usage: dict[str, dict[str, ServiceUsage]] = {}
        """What each sandbox has made of each of its brokers."""
        self._observers: dict[str, Observer] = {}
        """Who tells of that, by sandbox; the broker is nobody's worker."""
        self._numbers = Metrics()
        start = Start(settings_to_data(settings), on_full, log, self._broker.descriptor)
        self._keepers = [Keeper(self._loop, start, self._audit) for _ in range(count)]
        self._homes: dict[str, Keeper] = {}
        """Where each sandbox is served; like all that the loop uses, changed on its thread only."""

        self._lock = Lock()
        self._waiting: set[Future[Any]] = set()
        self._tasks: list[Task] = []
        self._ended = False
        self._thread = Thread(target=self._run, name="belljar-workers", daemon=True)
        self._thread.start()

    def open(
        self,
        sandbox: str,
        policy: ResolvedPolicy | None,
        listeners: Listeners,
        limits: Limits | None = None,
        *,
        until: float | None = None,
    ) -> None:
        """Begin to serve a sandbox. The listeners are ours from now on, but stay the caller's on an error.

        See `change_policy` for `until`. Raises RefusedError if the policy cannot be enforced, WorkerLostError if no
        worker survives it, and ValueError if there is such a sandbox.
        """
        kept = SupervisedSandbox(
            sandbox, PendingPolicy(policy, until), listeners, limits or Limits(), NameMemory.create()
        )
        try:
            self._call(lambda: self._open(kept))
        except BaseException:
            kept.names.close()
            raise

    def change_policy(self, sandbox: str, policy: ResolvedPolicy, *, until: float | None = None) -> Acknowledgement:
        """Put a new policy in force within `keeper.BOUND`, or close the sandbox until it is: the old one has ended.

        `until` is when it has to have been replaced (`time.CLOCK_BOOTTIME`); if it has not, the sandbox is left nothing
        to reach. Raises RefusedError if the policy cannot be enforced; then nothing has changed.
        """
        change = PendingPolicy(policy, until)
        is_in_force = self._call(lambda: self._change(sandbox, change))
        return Acknowledgement(change.generation, change.flows_cut, is_in_force)

    def close(self, sandbox: str) -> None:
        """End everything of one sandbox."""
        self._call(lambda: self._close(sandbox))

    def has(self, sandbox: str) -> bool:
        """Tell whether a sandbox is served."""
        return sandbox in self._homes

    def is_in_force(self, sandbox: str) -> bool:
        """Tell whether a sandbox is served with the policy that it is to have. If not, it can reach nothing."""
        keeper = self._homes.get(sandbox)
        kept = keeper.sandboxes.get(sandbox) if keeper is not None else None
        return kept is not None and kept.change.is_in_force and kept.change.policy is not None

    def denials(self, sandbox: str) -> list[Denial]:
        """Return the latest denials of a sandbox, the newest first, as far as its worker remembers.

        Raises WorkerSilentError.
        """
        return [Denial(*denial) for denial in self._call(lambda: self._homes[sandbox].ask("denials", sandbox))]

    def flows(self, sandbox: str) -> list[OpenFlow]:
        """Return the live flows of a sandbox. Raises WorkerSilentError."""
        found = self._call(lambda: self._homes[sandbox].ask("flows", sandbox))
        return [OpenFlow(flow_from_data(flow), *measured) for flow, *measured in found]

    def usage(self, sandbox: str) -> list[ServiceUsage]:
        """Return what a sandbox has made of its brokers, as far as it has used them, with the budgets of its policy."""
        supervised = self._homes[sandbox].sandboxes.get(sandbox)
        policy = supervised.change.policy if supervised is not None else None
        # The broker's events have the budget of their request, which a later policy may have changed.
        budgets = {service.name: limits(service.budget) for service in policy.services} if policy is not None else {}
        used = list(self._usage.get(sandbox, {}).values())
        return [each._replace(budget=budgets.get(each.service, each.budget)) for each in used]

    def metrics(self) -> str:
        """Return the numbers of all sandboxes as Prometheus reads them; not those of a worker that does not answer."""
        return merge(self._call(self._metrics))

    def wait_until_up(self) -> None:
        """Wait until all workers serve."""
        self._call(self._is_up)

    def pids(self) -> list[int | None]:
        """Return the processes' numbers; None where a worker is just being replaced."""
        return [keeper.pid for keeper in self._keepers]

    def shut_down(self) -> None:
        """End every sandbox and every worker. May be called again."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._loop.call_from_thread(self._stop)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.shut_down()

    def _call(self, act: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Have something done on the loop's thread, and wait until it is."""
        done: Future[Any] = Future()

        def begin() -> None:
            self._loop.spawn(_told(act, done))

        with self._lock:
            if self._ended:
                raise WorkerLostError(_SHUT_DOWN)
            self._waiting.add(done)
            self._loop.call_from_thread(begin)
        try:
            return done.result()
        finally:
            self._waiting.discard(done)

    # On the loop's thread.

    def _run(self) -> None:
        self._loop.on_crash = self._crash
        if self._has_counted:  # for an earlier server; the broker tells what
            self._broker.start()
        self._tasks = [self._loop.spawn(keeper.keep()) for keeper in self._keepers]
        self._tasks.append(self._loop.spawn(self._watch_ends()))
        if self._audit is not None:
            self._loop.spawn(keep_flushed(self._loop, self._audit))
        self._loop.run()
        with self._lock:
            self._ended = True
        for done in list(self._waiting):
            if not done.done():
                done.set_exception(WorkerLostError(_SHUT_DOWN))
        for keeper in self._keepers:
            keeper.reap()
            for kept in keeper.sandboxes.values():
                kept.close()
        self._broker.close()
        if self._own_state is not None:
            self._own_state.cleanup()
        if self._audit is not None:
            self._audit.close()
        self._loop.close()

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._loop.call_soon(self._loop.stop)

    def _crash(self, error: BaseException) -> None:
        """Close everything: who cannot keep workers alive cannot promise anything about sandboxes."""
        log_bug("a bug in the supervisor", error)
        self._stop()

    async def _open(self, kept: SupervisedSandbox) -> None:
        if kept.id in self._homes:
            raise ValueError(f"there is a sandbox {kept.id} already")
        homes = list(self._homes.values())
        keeper = self._homes[kept.id] = min(self._keepers, key=homes.count)
        try:
            await keeper.open(kept)
        except BaseException:
            del self._homes[kept.id]
            raise

    async def _change(self, sandbox: str, change: PendingPolicy) -> bool:
        keeper = self._homes[sandbox]
        return await keeper.change(keeper.sandboxes[sandbox], change)

    async def _close(self, sandbox: str) -> None:
        keeper = self._homes.pop(sandbox)
        self._usage.pop(sandbox, None)
        self._observers.pop(sandbox, None)
        self._numbers.forget(sandbox)
        await keeper.close(keeper.sandboxes[sandbox])

    async def _metrics(self) -> list[str]:
        asking = [self._loop.spawn(_unless_silent(keeper.ask("metrics"))) for keeper in self._keepers]
        counted = [numbers for task in asking if (numbers := await self._loop.join(task)) is not None]
        return [*counted, self._numbers.render()]

    def _note(self, event: dict[str, Any]) -> None:
        """Take note of what the broker says of a sandbox: what it has used, and of a request."""
        if "sandbox" not in event:
            return
        sandbox, service, used = event["sandbox"], event["service"], used_by(event)
        usage = ServiceUsage(service, event["used"], event.get("budget", {}))
        self._usage.setdefault(sandbox, {})[service] = usage
        if used is None or sandbox not in self._homes:
            return
        if sandbox not in self._observers:
            self._observers[sandbox] = Observer(sandbox, audit=self._audit, metrics=self._numbers)
        self._observers[sandbox].service_used(used)

    async def _is_up(self) -> None:
        for keeper in self._keepers:
            await keeper.is_up()

    async def _watch_ends(self) -> None:
        """Have an end made of policies that should have been replaced."""
        while True:
            await self._loop.sleep(_TICK_SECONDS)
            now = time.clock_gettime(time.CLOCK_BOOTTIME)
            for keeper in self._keepers:
                for kept in list(keeper.sandboxes.values()):
                    if kept.change.until is not None and kept.change.until <= now:
                        kept.change.until = None
                        self._loop.spawn(keeper.end(kept, kept.change))


async def _told(act: Callable[[], Coroutine[Any, Any, Any]], done: Future[Any]) -> None:
    try:
        result = await act()
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        done.set_exception(error)
    else:
        done.set_result(result)


async def _unless_silent(asking: Coroutine[Any, Any, str]) -> str | None:
    try:
        return await asking
    except (WorkerSilentError, WorkerLostError):
        return None
