"""An event loop for sockets: coroutines, timers and nothing else, on edge-triggered epoll.

Theory of operation
-------------------
A descriptor is registered once, for both directions, edge-triggered; from then on nothing but the work itself costs
a system call. That asks for one discipline of everyone: *try first, wait only when the kernel said "would block"*. An
edge that arrives while nobody waits is dropped, and it may be, because whoever comes later tries first.

Who waits for a descriptor is a callback per direction (`Watch`). Coroutines wait through `Loop.readable` and
`Loop.writable`; the relay, which moves most of the bytes, sets its own callbacks and spends no coroutine on them.

A wake-up is a hint and no promise: the descriptor of a connection that was just closed may belong to another one by the
time its last event is looked at. So whoever is woken tries again, and is prepared to wait again.

A coroutine runs as a Task until it waits. A task can be cancelled: Cancelled is raised where it waits. A `timeout` does
the same with TimeoutError. The loop is not for threads, with one exception: `call_from_thread`.

One loop serves many who must not suffer from each other. What a call raises, or a task that nobody waits for, goes to
`on_crash`, and the loop goes on. Whatever is done has an owner (`turns`), who is inherited: tasks, timers and watches
are those of whoever makes them. The gateway's own are called as soon as they are due; those of the others wait for
their owner's turn, which ends when its slice of time is over. No call can be interrupted, so one that has much to do
looks at the clock, and gives way at `slice_ends`.
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from types import coroutine
from typing import Any, Final, NoReturn, Protocol

from belljar.gateway.io.timers import Timer, Timers
from belljar.turns import SLICE, Line, Owner

_BOTH: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_READ: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_WRITE: Final = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
_ERROR: Final = select.EPOLLERR
_MAX_EVENTS: Final = 1024  # so many that nobody's are far behind those of somebody who causes them without end
_MAX_CALLS: Final = 256  # in a slice, even if time should stand still


class HasFileno(Protocol):
    """Whatever has a descriptor."""

    def fileno(self) -> int: ...


class Cancelled(BaseException):
    """Raised in a task where it waits, because somebody decided that it should end."""


class Watch:
    """Who is to be called when a descriptor is ready."""

    __slots__ = ("events", "on_error", "on_readable", "on_writable", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.events = 0
        """What has happened, and waits for the owner's turn."""
        self.on_readable: Callable[[], None] | None = None
        self.on_writable: Callable[[], None] | None = None
        self.on_error: Callable[[], None] | None = None
        """Called after the others when the connection is broken: they may be waiting for something else."""

    def tell(self) -> None:
        """Call whoever is to be called, all of them, even if one fails."""
        events, self.events = self.events, 0
        try:
            if events & _READ and self.on_readable is not None:
                self.on_readable()
        finally:
            try:
                if events & _WRITE and self.on_writable is not None:
                    self.on_writable()
            finally:
                if events & _ERROR and self.on_error is not None:
                    self.on_error()

    def stop_reading(self) -> None:
        """Let nobody be called when there is something to read."""
        self.on_readable = None

    def stop_writing(self) -> None:
        """Let nobody be called when there is room to write."""
        self.on_writable = None


class Task:
    """A coroutine on its way."""

    __slots__ = ("_coroutine", "_loop", "_on_done", "_unwait", "done", "error", "has_begun", "owner", "result")

    def __init__(self, loop: "Loop", work: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self.owner = loop.owner
        self._coroutine = work
        self.has_begun = False
        self._unwait: Callable[[], None] | None = None
        self._on_done: list[Callable[[], None]] = []
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def cancel(self) -> None:
        """End the task where it waits."""
        self.throw(Cancelled())

    def throw(self, error: BaseException) -> None:
        """Raise an error in the task where it waits, before anything else is done for its owner.

        A task that has not begun never does. Whatever works for one that is to end must not get a turn before it ends.
        """
        if not (self.done or self.has_begun):
            self._coroutine.close()  # the loop may never turn again, and Python complains of what was never begun
            self._finish(None, error)
        elif not self.done:
            self._stop_waiting()
            self._loop.call_first_for(self.owner, [lambda: self.throw_now(error)])

    def when_done(self, call: Callable[[], None]) -> Callable[[], None]:
        """Have something called at the end; return what calls that off."""
        self._on_done.append(call)
        return lambda: self._on_done.remove(call) if call in self._on_done else None

    def wake(self) -> None:
        """Go on after a wait: at once, or in the owner's next turn if this is somebody else's."""
        if self.owner is self._loop.owner:
            self.step()
        else:
            self._stop_waiting()
            self._loop.call_soon_for(self.owner, self.step)

    def throw_now(self, error: BaseException) -> None:
        """Raise an error in the task where it waits, at once; not for use inside of a task."""
        self.step(error)

    def _stop_waiting(self) -> None:
        if self._unwait is not None:
            unwait, self._unwait = self._unwait, None
            unwait()

    def step(self, error: BaseException | None = None) -> None:
        """Go on after a wait, at once; only in the owner's turn, or with an error to be raised."""
        unwait = self._unwait
        if unwait is not None:
            self._unwait = None
            unwait()
        if self.done:
            return
        previous, self._loop.current = self._loop.current, self
        self.has_begun = True
        try:
            if error is None:
                self._unwait = self._coroutine.send(None)
            else:
                self._unwait = self._coroutine.throw(error)
        except StopIteration as stop:
            self._finish(stop.value, None)
        except (Exception, Cancelled) as raised:  # noqa: BLE001 - kept for whoever waits for the task
            self._finish(None, raised)
        finally:
            self._loop.current = previous

    def _finish(self, result: Any, error: BaseException | None) -> None:
        self.done, self.result, self.error = True, result, error
        calls, self._on_done = self._on_done, []
        for call in calls:
            call()
        if error is not None and not isinstance(error, Cancelled) and not calls:
            self._loop.on_crash(error)


class Timeout(Timer):
    """A block that may take so long: a timer that is called off at its end."""

    __slots__ = ("_loop", "_seconds", "_task")

    def __init__(self, loop: "Loop", task: Task, seconds: float) -> None:
        self._loop, self._task, self._seconds = loop, task, seconds
        self.owner = loop.owner

    def __enter__(self) -> None:
        self.call = self._expire
        self._loop.start_timer(self._seconds, self)

    def __exit__(self, *_: object) -> None:
        self.call = None

    def _expire(self) -> None:
        self._task.throw_now(TimeoutError())


@coroutine
def _suspend(unwait: Callable[[], None]) -> Generator[Callable[[], None], None, None]:
    """Wait until somebody wakes the task; `unwait` undoes what was arranged for that."""
    yield unwait


class Loop:
    """Runs tasks until it is stopped."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.current: Task | None = None
        self.on_crash: Callable[[BaseException], None] = partial(log_bug, "a bug in the gateway")
        self._itself = Owner()
        self._itself.in_line = True  # ahead of the line, that is
        self.owner = self._itself
        """Whose turn it is."""
        self.slice_ends = inf
        """When whoever is called now should leave the rest for later, on the loop's clock."""
        self._line = Line()
        self._epoll = select.epoll()
        self._watches: dict[int, Watch] = {}
        self._from_threads: deque[Callable[[], None]] = deque()
        self._timers = Timers()
        self._running = False
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.watch_descriptor(self._wakeup).on_readable = self._drain_wakeup

    # Owners.

    @contextmanager
    def working_for(self, owner: Owner) -> Iterator[None]:
        """Have whatever is made in a block belong to an owner."""
        before, self.owner = self.owner, owner
        try:
            yield
        finally:
            self.owner = before

    async def give_way(self) -> None:
        """Go on in the owner's next turn, behind whatever else it has to do."""
        task = self.current or self._nobody()
        again = Timer(task.wake, task.owner)
        self.call_soon_for(task.owner, again.run)
        await _suspend(again.cancel)

    # Descriptors.

    def watch(self, source: HasFileno) -> Watch:
        """Register a descriptor, for as long as it is open or until `unwatch`."""
        return self.watch_descriptor(source.fileno())

    def watch_descriptor(self, fd: int) -> Watch:
        """Do the same for whoever has only its number."""
        self._epoll.register(fd, _BOTH)
        watch = self._watches[fd] = Watch(self.owner)
        return watch

    def unwatch(self, source: HasFileno) -> None:
        """Forget a descriptor, whoever else may hold what it stands for."""
        fd = source.fileno()
        if self.forget(fd):
            self._epoll.unregister(fd)

    def forget(self, fd: int) -> bool:
        """Forget a descriptor that nobody else holds and that is closed next, which makes the kernel forget it, too.

        Tell whether it was known.
        """
        watch = self._watches.pop(fd, None)
        if watch is None:
            return False
        watch.on_readable = watch.on_writable = watch.on_error = None
        return True

    def nudge(self, source: HasFileno) -> None:
        """Wake a task that waits to read from a descriptor, as if the descriptor had become readable."""
        watch = self._watches.get(source.fileno())
        if watch is None:
            return
        if not watch.events:
            self.call_soon_for(watch.owner, watch.tell)
        watch.events |= select.EPOLLIN

    @coroutine
    def readable(self, watch: Watch) -> Generator[Callable[[], None], None, None]:
        """Wait until a descriptor that would block can be read from."""
        task = self.current or self._nobody()
        watch.on_readable = task.step if watch.owner is task.owner else task.wake
        yield watch.stop_reading

    @coroutine
    def writable(self, watch: Watch) -> Generator[Callable[[], None], None, None]:
        """Wait until a descriptor that would block can be written to."""
        task = self.current or self._nobody()
        watch.on_writable = task.step if watch.owner is task.owner else task.wake
        yield watch.stop_writing

    # Tasks and time.

    def spawn(self, work: Coroutine[Any, Any, Any]) -> Task:
        """Start a task; it runs from the next turn of the loop."""
        task = Task(self, work)
        self.call_soon_for(task.owner, task.wake)
        return task

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call something in the next turn."""
        self.call_soon_for(self.owner, call)

    def call_soon_for(self, owner: Owner, call: Callable[[], None]) -> None:
        """Call something in an owner's next turn."""
        owner.calls.append(call)
        if not owner.in_line:
            self._line.join(owner)

    def call_first_for(self, owner: Owner, calls: Sequence[Callable[[], None]]) -> None:
        """Call some things in an owner's next turns, before anything else is done for it."""
        owner.calls.extendleft(reversed(calls))
        if calls and not owner.in_line:
            self._line.join(owner)

    def call_from_thread(self, call: Callable[[], None]) -> None:
        """Call something in the next turn; the one method that other threads may use."""
        self._from_threads.append(call)
        os.eventfd_write(self._wakeup, 1)

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call something after some time."""
        timer = Timer(call, self.owner)
        self.start_timer(seconds, timer)
        return timer

    def start_timer(self, seconds: float, timer: Timer) -> None:
        """Have a timer run after some time."""
        self._timers.add(self.clock() + seconds, timer)

    async def sleep(self, seconds: float) -> None:
        """Wait for some time."""
        task = self.current or self._nobody()
        timer = self.call_later(seconds, task.wake)
        await _suspend(timer.cancel)

    async def wait_for(self, arrange: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
        """Wait for anything at all: `arrange` is given the call that ends the wait, and returns its undoing."""
        task = self.current or self._nobody()
        await _suspend(arrange(task.wake))

    async def join(self, task: Task) -> Any:
        """Wait for a task and return its result, or raise its error."""
        if not task.done:
            waiting = self.current or self._nobody()
            await _suspend(task.when_done(waiting.wake))
        if task.error is not None:
            raise task.error
        return task.result

    def timeout(self, seconds: float) -> "Timeout":
        """Raise TimeoutError in this task if the block takes longer."""
        return Timeout(self, self.current or self._nobody(), seconds)

    def _nobody(self) -> NoReturn:
        raise RuntimeError("only a task of this loop can wait")

    # Running.

    def run(self) -> None:
        """Run until `stop`."""
        self._running = True
        while self._running:
            self.turn()

    def stop(self) -> None:
        """End `run` after this turn."""
        self._running = False

    def turn(self) -> None:
        """Do what is due for the gateway itself and one slice of what is due for others, then see what comes next."""
        calls, timers = self._itself.calls, self._timers
        for _ in range(len(calls)):
            self._call(calls.popleft())
        if self._line:
            self._serve()
        in_a_hurry = calls or self._line or self._from_threads or not self._running
        patience = 0.0 if in_a_hurry else timers.seconds_to_next(self.clock())
        for fd, events in self._epoll.poll(patience, _MAX_EVENTS):
            watch = self._watches.get(fd)
            if watch is None:
                continue
            owner = watch.owner
            if owner is self._itself:
                watch.events = events
                self._call(watch.tell)
                continue
            if not watch.events:
                owner.calls.append(watch.tell)
                if not owner.in_line:
                    self._line.join(owner)
            watch.events |= events
        if timers.heap and timers.heap[0][0] <= self.clock():
            self._run_timers()

    def _serve(self) -> None:
        """Do what the owner has to do whose turn it is, until its slice is over."""
        owner = self._line.begin_turn()
        if owner is not None:
            self._line.end_turn(owner, self._run_slice(owner, owner.credit))

    def run_owner(self, owner: Owner, until: Callable[[], bool]) -> None:
        """Run the calls of one owner only, until a condition holds or none is left."""
        if owner.in_line:
            self._line.remove(owner)
        owner.in_line = True
        while owner.calls and not until():
            owner.charge(self._run_slice(owner, SLICE))
        self._line.end_turn(owner, 0)

    def _run_slice(self, owner: Owner, seconds: float) -> float:
        """Run calls of an owner for some time; return how long that took."""
        before = self.owner, self.slice_ends
        self.owner, calls, clock = owner, owner.calls, self.clock
        began = now = clock()
        self.slice_ends = ends = began + seconds
        for _ in range(_MAX_CALLS):
            try:
                calls.popleft()()
            except Exception as error:  # noqa: BLE001 - the others go on
                self.on_crash(error)
            now = clock()
            if not calls or now >= ends:
                break
        self.owner, self.slice_ends = before
        return now - began

    def close(self) -> None:
        """Release the loop's own descriptors."""
        self._epoll.close()
        os.close(self._wakeup)

    def _call(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - the others go on
            self.on_crash(error)

    def _run_timers(self) -> None:
        for timer in self._timers.take_due(self.clock()):
            if timer.owner is self._itself:
                self._call(timer.run)
            else:
                self.call_soon_for(timer.owner, timer.run)

    def _drain_wakeup(self) -> None:
        os.eventfd_read(self._wakeup)
        while self._from_threads:
            self._itself.calls.append(self._from_threads.popleft())


def log_bug(what: str, error: BaseException) -> None:
    """Log a bug of ours: in one line, or with its traceback for whoever has asked for that."""
    import logging  # noqa: PLC0415 - it takes longer than starting a command should, and is hardly ever needed

    wants_traceback = bool(os.environ.get("BELLJAR_DEBUG"))
    logging.getLogger("belljar").error(
        "%s: %s", what, kind_and_place(error), exc_info=error if wants_traceback else None
    )


def kind_and_place(error: BaseException) -> str:
    """Return what is known of an error but for its text, which may quote what a client has sent."""
    import traceback  # noqa: PLC0415 - see above

    places = traceback.extract_tb(error.__traceback__)[-1:]
    return "".join([type(error).__name__, *(f" in {Path(at.filename).name}:{at.lineno}" for at in places)])
