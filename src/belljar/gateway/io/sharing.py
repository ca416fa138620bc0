"""Work that several callers want at the same time is done once, for all of them.

The work is a task of its own, so a caller that is cancelled leaves the others undisturbed; when the last one has left,
the work is cancelled, too. It is shared among callers with the same owner: nobody waits for what is done in the turns
of somebody else, who may have much to do. When the work is done, each of them goes on in a call of its own: they may be
many, and others want their turn in between.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, TypeVar

from belljar.gateway.io.loop import Loop, Task
from belljar.turns import Owner

T = TypeVar("T")


class Shared(Generic[T]):
    """Pieces of work in progress, by their keys."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._jobs: dict[tuple[Owner, str], _Job] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, key: str) -> bool:
        return (self._loop.owner, key) in self._jobs

    async def do(self, key: str, work: Callable[[str], Coroutine[Any, Any, T]]) -> T:
        """Return what the work for this key comes to, which is begun unless it is in progress; or raise its error."""
        job = self._jobs.get((self._loop.owner, key)) or self._begin(self._loop.owner, key, work)
        await self._loop.wait_for(job.join)
        if job.task.error is not None:
            raise job.task.error
        result: T = job.task.result
        return result

    def _begin(self, owner: Owner, key: str, work: Callable[[str], Coroutine[Any, Any, T]]) -> "_Job":
        # The job is forgotten as soon as it is over or abandoned, so that nobody joins it then.
        job = self._jobs[owner, key] = _Job(
            self._loop, self._loop.spawn(work(key)), lambda: self._jobs.pop((owner, key))
        )
        return job


class _Job:
    """One piece of work, and the calls that wake those who wait for it."""

    def __init__(self, loop: Loop, task: Task, on_end: Callable[[], object]) -> None:
        self._loop = loop
        self.task = task
        self._on_end = on_end
        self._waiting: dict[Callable[[], None], None] = {}
        task.when_done(self._finish)

    def join(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have a caller woken at the end; return the call with which it leaves."""
        self._waiting[wake] = None
        return lambda: self._leave(wake)

    def _leave(self, wake: Callable[[], None]) -> None:
        del self._waiting[wake]
        if not self._waiting and not self.task.done:
            self._on_end()
            self.task.cancel()

    def _finish(self) -> None:
        if not self._waiting:  # abandoned, and forgotten already
            return
        self._on_end()
        for wake in self._waiting:
            self._loop.call_soon_for(self.task.owner, partial(self._wake, wake))

    def _wake(self, wake: Callable[[], None]) -> None:
        if wake in self._waiting:  # or it was cancelled meanwhile
            wake()
