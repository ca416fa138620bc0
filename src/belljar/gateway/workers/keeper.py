"""Keeping one worker alive, and telling it what to do.

Theory of operation
-------------------
A keeper holds everything that the next worker needs to go on where the last one fell: for each sandbox its listeners,
its policy and the memory of its names. Whatever is to be done is put in a queue and done in order by whichever worker
is there. What changes a sandbox is noted down when a worker has acknowledged it, and not before; so if a worker is lost
in the middle, the next one begins with the state before, and is asked again. What has cost several workers their life
is given up, and nothing has changed.

The channel's end tells that a worker is lost, whatever killed it. If workers die young, the next one is made to wait.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from belljar.gateway.audit import AuditLog
from belljar.gateway.events import SandboxInterrupted
from belljar.gateway.jar import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.loop import Loop
from belljar.gateway.workers.data import policy_to_data
from belljar.gateway.workers.namememory import NameMemory
from belljar.gateway.workers.process import WorkerLostError, WorkerProcess
from belljar.policy import CompiledPolicy

_ATTEMPTS: Final = 3
_YOUNG_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0

Act = Callable[[WorkerProcess], Coroutine[Any, Any, Any]]


@dataclass(slots=True)
class Kept:
    """All that it takes to serve a sandbox."""

    id: str
    policy: CompiledPolicy | None
    listeners: Listeners
    limits: Limits
    names: NameMemory

    async def hand_to(self, worker: WorkerProcess) -> None:
        """Have a worker serve the sandbox."""
        await worker.ask(
            "open",
            [self.names.descriptor, *(listener.fileno() for listener in self.listeners)],
            sandbox=self.id,
            policy=policy_to_data(self.policy) if self.policy is not None else None,
            limits=asdict(self.limits),
            listeners={door: len(sockets) for door, sockets in self.listeners.groups().items()},
        )

    def close(self) -> None:
        """Leave the sandbox without doors."""
        self.listeners.close()
        self.names.close()


class Start(NamedTuple):
    """What every worker is told first."""

    settings: dict[str, Any]
    on_full: str
    audit: int | None


@dataclass(slots=True)
class _Order:
    act: Act
    done: Future[Any]
    attempts: int = 0


class Keeper:
    """Sees to it that there is a worker. Everything happens on the loop's thread."""

    def __init__(self, loop: Loop, start: Start, audit: AuditLog | None) -> None:
        self._loop, self._start, self._audit = loop, start, audit
        self._orders: deque[_Order] = deque()
        self._wake: Callable[[], None] | None = None
        self.pid: int | None = None
        """The worker's, while there is one that serves."""

        self.sandboxes: dict[str, Kept] = {}

    def order(self, act: Act, done: Future[Any]) -> None:
        """Have something done with the worker; `done` will tell what came of it."""
        self._orders.append(_Order(act, done))
        if self._wake is not None:
            self._wake()

    async def keep(self) -> None:
        """Start a worker, and another one whenever it is lost, until cancelled."""
        pause = 0.0
        while True:
            born = self._loop.clock()
            try:
                await self._live()
            except WorkerLostError as loss:
                self._mourn(loss)
            young = self._loop.clock() - born < _YOUNG_SECONDS
            pause = min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE) if young else 0.0
            await self._loop.sleep(pause)

    async def _live(self) -> None:
        """Work with one worker for as long as it lives."""
        worker = WorkerProcess(self._loop)
        try:
            await self._begin(worker)
            self.pid = worker.pid
            await self._work(worker)
        finally:
            self.pid = None
            worker.dismiss()

    async def _begin(self, worker: WorkerProcess) -> None:
        start = self._start
        descriptors = [start.audit] if start.audit is not None else []
        await worker.ask("begin", descriptors, settings=start.settings, on_full=start.on_full)
        for kept in self.sandboxes.values():
            await kept.hand_to(worker)

    async def _work(self, worker: WorkerProcess) -> None:
        while True:
            while self._orders:
                await _carry_out(self._orders[0], worker)
                self._orders.popleft()
            if worker.channel.ended():
                raise worker.lost()
            await self._loop.wait_for(lambda wake: self._until_news(worker, wake))

    def _until_news(self, worker: WorkerProcess, wake: Callable[[], None]) -> Callable[[], None]:
        """Arrange to be woken by an order, or by the end of the worker."""
        self._wake = worker.channel.watch.on_readable = wake

        def undo() -> None:
            self._wake = worker.channel.watch.on_readable = None

        return undo

    def _mourn(self, loss: WorkerLostError) -> None:
        """Tell of a loss, and give up the order that has caused too many."""
        if self._audit is not None:
            for sandbox in self.sandboxes:
                self._audit.write(sandbox, SandboxInterrupted(loss.cause))
        if self._orders:
            order = self._orders[0]
            order.attempts += 1
            if order.attempts == _ATTEMPTS:
                self._orders.popleft()
                order.done.set_exception(loss)


async def _carry_out(order: _Order, worker: WorkerProcess) -> None:
    try:
        result = await order.act(worker)
    except WorkerLostError:
        raise
    except Exception as error:  # noqa: BLE001 - raised where it is waited for
        order.done.set_exception(error)
    else:
        order.done.set_result(result)
