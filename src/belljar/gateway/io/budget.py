"""What sandboxes take up: descriptors, which all of a process share, and memory, of which each has so much.

A sandbox may hold twice as many descriptors as are left. So a greedy one gets two thirds of them, two get two fifths
each, and however many there are, something is left for the next. Nobody has to say how large a share is, and what the
others do not want does not go to waste.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_FOR_THE_PROCESS: Final = 32  # files that it reads, logs, child processes


class Descriptors:
    """How many there are for all."""

    def __init__(self, descriptors: int | None = None) -> None:
        """Without a number, it is what the process may still open."""
        self.free = _left_to_the_process() if descriptors is None else descriptors


class Share:
    """What one sandbox holds."""

    __slots__ = ("_budget", "held")

    def __init__(self, budget: Descriptors) -> None:
        self._budget = budget
        self.held = 0

    def take(self, count: int) -> bool:
        """Take some, unless the sandbox would then hold more than twice of what is left for everybody else."""
        if self.held + count > 2 * (self._budget.free - count):
            return False
        self.held += count
        self._budget.free -= count
        return True

    def hold(self, count: int) -> None:
        """Take some in any case."""
        self.held += count
        self._budget.free -= count

    def give_back(self, count: int) -> None:
        """Return some of what was taken."""
        self.held -= count
        self._budget.free += count


class Buffers:
    """The memory that is held for one sandbox, for what it has sent or is to receive."""

    __slots__ = ("_limit", "left")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.left = limit
        """Less than nothing where something is held in any case."""

    @property
    def held(self) -> int:
        """How much it is now."""
        return self._limit - self.left

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold so much for the length of a block, in any case."""
        self.left -= size
        try:
            yield
        finally:
            self.left += size


def _left_to_the_process() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft - len(os.listdir("/proc/self/fd")) - _FOR_THE_PROCESS  # noqa: PTH208 - a count, without making paths
