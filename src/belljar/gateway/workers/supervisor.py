"""The supervisor: worker processes that serve sandboxes, and outlive their own crashes.

A sandbox belongs to one worker, that with the fewest. Everything that is decided about it is decided there, with one
set of names, live flows and limits; nothing has to be agreed upon between processes.

The supervisor has a thread of its own. It starts the workers, in the network namespace of the thread that made the
`Workers`, and the kernel ends them with it.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, Final, Literal, NamedTuple, Self

from belljar.gateway.audit import AuditLog, keep_flushed
from belljar.gateway.jar import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.loop import Loop, Task, log_bug
from belljar.gateway.metrics import merge
from belljar.gateway.observing import Denial
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.workers.data import flow_from_data, policy_to_data, settings_to_data
from belljar.gateway.workers.keeper import Act, Keeper, Kept, Start
from belljar.gateway.workers.namememory import NameMemory
from belljar.gateway.workers.process import WorkerLostError, WorkerProcess
from belljar.policy import CompiledPolicy, Flow

_SHUT_DOWN: Final = "all of them have been shut down"


class Acknowledgement(NamedTuple):
    """A policy is in force."""

    generation: int
    flows_cut: int


class OpenFlow(NamedTuple):
    """A live flow, and what it has carried so far."""

    flow: Flow
    bytes_up: int
    bytes_down: int
    seconds: float


class Workers:
    """Worker processes. Any thread may call any method; each returns when a worker has done what it says.

    A worker that is lost meanwhile is replaced, and the next one is asked. If that does not help, a method raises
    WorkerLostError, and nothing has changed. Methods raise KeyError for an unknown sandbox.
    """

    def __init__(
        self,
        count: int,
        settings: Settings = DEFAULTS,
        *,
        audit: int | None = None,
        on_full: Literal["lose", "block"] = "lose",
    ) -> None:
        """`audit` is a descriptor that is open for appending, and stays the caller's; see AuditLog for `on_full`."""
        self._loop = Loop()
        log = os.dup(audit) if audit is not None else None
        self._audit = AuditLog(log) if log is not None else None
        start = Start(settings_to_data(settings), on_full, log)
        self._keepers = [Keeper(self._loop, start, self._audit) for _ in range(count)]
        self._homes: dict[str, Keeper] = {}
        """Where each sandbox is served; like all that the loop uses, touched on its thread only."""

        self._lock = Lock()
        self._waiting: set[Future[Any]] = set()
        self._tasks: list[Task] = []
        self._ended = False
        self._thread = Thread(target=self._run, name="belljar-workers", daemon=True)
        self._thread.start()

    def open(
        self, sandbox: str, policy: CompiledPolicy | None, listeners: Listeners, limits: Limits | None = None
    ) -> None:
        """Begin to serve a sandbox. The listeners are ours from now on, but stay the caller's on an error.

        Raises RefusedError if the policy cannot be enforced, and ValueError if there is such a sandbox.
        """
        kept = Kept(sandbox, policy, listeners, limits or Limits(), NameMemory.create())
        self._call(lambda done: self._open(kept, done))

    def change_policy(self, sandbox: str, policy: CompiledPolicy) -> Acknowledgement:
        """Put a new policy in force. Raises RefusedError if it cannot be enforced; then nothing has changed."""

        async def change(worker: WorkerProcess) -> Acknowledgement:
            answer = await worker.ask("change_policy", sandbox=sandbox, policy=policy_to_data(policy))
            self._homes[sandbox].sandboxes[sandbox].policy = policy
            return Acknowledgement(**answer)

        acknowledgement: Acknowledgement = self._call(lambda done: self._homes[sandbox].order(change, done))
        return acknowledgement

    def close(self, sandbox: str) -> None:
        """End everything of one sandbox."""

        async def close(worker: WorkerProcess) -> None:
            kept = self._homes.pop(sandbox).sandboxes.pop(sandbox)
            with suppress(WorkerLostError):  # then it is closed already
                await worker.ask("close", sandbox=sandbox)
            kept.close()

        self._call(lambda done: self._homes[sandbox].order(close, done))

    def denials(self, sandbox: str) -> list[Denial]:
        """Return the latest denials of a sandbox, the newest first, as far as its worker remembers."""
        return [Denial(*denial) for denial in self._ask_about(sandbox, "denials")]

    def flows(self, sandbox: str) -> list[OpenFlow]:
        """Return the live flows of a sandbox."""
        return [OpenFlow(flow_from_data(flow), *measured) for flow, *measured in self._ask_about(sandbox, "flows")]

    def metrics(self) -> str:
        """Return the numbers of all sandboxes as Prometheus reads them."""
        return merge(self._ask(keeper, "metrics") for keeper in self._keepers)

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

    def _ask_about(self, sandbox: str, what: str) -> Any:
        return self._call(lambda done: self._homes[sandbox].order(_asking(what, sandbox=sandbox), done))

    def _ask(self, keeper: Keeper, what: str) -> Any:
        return self._call(lambda done: keeper.order(_asking(what), done))

    def _call(self, begin: Callable[[Future[Any]], None]) -> Any:
        """Begin something on the loop's thread, and wait until it is done."""
        done: Future[Any] = Future()

        def call() -> None:
            try:
                begin(done)
            except (KeyError, ValueError) as error:
                done.set_exception(error)

        with self._lock:
            if self._ended:
                raise WorkerLostError(_SHUT_DOWN)
            self._waiting.add(done)
            self._loop.call_from_thread(call)
        try:
            return done.result()
        finally:
            self._waiting.discard(done)

    # On the loop's thread.

    def _run(self) -> None:
        self._loop.on_crash = self._crash
        self._tasks = [self._loop.spawn(keeper.keep()) for keeper in self._keepers]
        if self._audit is not None:
            self._loop.spawn(keep_flushed(self._loop, self._audit))
        self._loop.run()
        with self._lock:
            self._ended = True
        for done in list(self._waiting):
            if not done.done():
                done.set_exception(WorkerLostError(_SHUT_DOWN))
        for keeper in self._keepers:
            for kept in keeper.sandboxes.values():
                kept.close()
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

    def _open(self, kept: Kept, done: Future[Any]) -> None:
        if kept.id in self._homes:
            kept.names.close()
            raise ValueError(f"there is a sandbox {kept.id} already")
        homes = list(self._homes.values())
        keeper = self._homes[kept.id] = min(self._keepers, key=homes.count)

        async def hand_over(worker: WorkerProcess) -> None:
            await kept.hand_to(worker)
            keeper.sandboxes[kept.id] = kept

        def forget_if_failed(done: Future[Any]) -> None:
            if done.exception() is not None:
                del self._homes[kept.id]
                kept.names.close()

        done.add_done_callback(forget_if_failed)
        keeper.order(hand_over, done)


def _asking(what: str, **data: Any) -> Act:
    async def ask(worker: WorkerProcess) -> Any:
        return await worker.ask(what, **data)

    return ask
