"""Drives an event loop by hand, with a clock that only a test can advance."""

import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from belljar.gateway.io.loop import Loop, Task

HANGS = 60.0
"""Real seconds after which a test that waits for something to happen has failed."""


_LONGEST_CHAIN = 25
"""Turns that the longest chain of events takes of which nobody waits for time to pass."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Driver:
    """A loop, and the means to start tasks in it and to run it until something has happened."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = Loop(clock=self.clock)
        self.loop.on_crash = _raise

    def start(self, work: Coroutine[Any, Any, Any]) -> Task:
        """Start a task whose error is kept for `result`."""
        task = self.loop.spawn(work)
        task.when_done(lambda: None)
        return task

    def until(self, happened: Callable[[], object]) -> None:
        given_up = time.monotonic() + HANGS
        while not happened():
            self.loop.turn()
            assert time.monotonic() < given_up, "it never happened"

    def result(self, task: Task) -> Any:
        """Run until the task is done; return its result or raise its error."""
        self.until(lambda: task.done)
        if task.error is not None:
            raise task.error
        return task.result

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.result(self.start(work))

    def settle(self) -> None:
        """Let everything happen that is due: cancellations, closings, calls for the next turn, and what they lead to.

        Each hop of a conversation with a server in the same loop takes a turn or two: its owner's, and its own.
        """
        for _ in range(_LONGEST_CHAIN):
            self.loop.turn()

    def advance(self, seconds: float) -> None:
        self.clock.now += seconds
        self.settle()


def open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def nothing_left_behind(driver: Driver) -> Iterator[None]:
    """Check that a block leaves no descriptor, watch or timer behind; what it began to close may take a moment."""
    before = _held(driver)
    yield
    driver.until(lambda: _held(driver) == before)


def _held(driver: Driver) -> tuple[int, int, int]:
    return open_descriptors(), len(driver.loop._watches), len(driver.loop._timers)


def _raise(error: BaseException) -> None:
    raise error
