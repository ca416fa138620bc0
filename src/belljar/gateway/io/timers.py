"""Calls in the future. Most of them guard against what rarely happens, and are called off long before they are due."""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Final

from belljar.turns import Owner

_FEW: Final = 1024


class Timer:
    """A call in the future, which can be called off."""

    __slots__ = ("call", "owner")

    def __init__(self, call: Callable[[], None], owner: Owner) -> None:
        self.call: Callable[[], None] | None = call
        self.owner = owner

    def run(self) -> None:
        """Make the call, unless it was called off."""
        if self.call is not None:
            call, self.call = self.call, None
            call()

    def cancel(self) -> None:
        """Call it off."""
        self.call = None


class Timers:
    """All that is to be called, in the order of its time."""

    def __init__(self) -> None:
        self.heap: list[tuple[float, int, Timer]] = []
        """The earliest first, with those that were called off."""

        self._numbers = count()
        self._many = _FEW

    def __len__(self) -> int:
        """How many have not been called off."""
        return sum(timer.call is not None for _, _, timer in self.heap)

    def add(self, when: float, timer: Timer) -> None:
        """Have a timer run at some time."""
        if len(self.heap) > self._many:
            self._drop_cancelled()
        heapq.heappush(self.heap, (when, next(self._numbers), timer))

    def seconds_to_next(self, now: float) -> float:
        """Return how long it is until something is due; -1 if nothing ever is."""
        heap = self.heap
        while heap and heap[0][2].call is None:
            heapq.heappop(heap)
        return max(0.0, heap[0][0] - now) if heap else -1.0

    def take_due(self, now: float) -> list[Timer]:
        """Return those that are due now; what is added meanwhile has to wait."""
        heap, due = self.heap, []
        while heap and heap[0][0] <= now:
            due.append(heapq.heappop(heap)[2])
        return due

    def _drop_cancelled(self) -> None:
        self.heap = [entry for entry in self.heap if entry[2].call is not None]
        heapq.heapify(self.heap)
        self._many = 2 * len(self.heap) + _FEW
