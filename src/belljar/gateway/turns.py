"""Whose turn it is: the time of one thread, shared among sandboxes that must not suffer from each other.

Theory of operation
-------------------
All work has an owner: a sandbox, or the gateway itself, whose work comes first and is never interrupted. What an owner
has to do waits with it: calls in a queue, and events of its descriptors in an epoll of its own, where they cost nobody
else anything, however many they are.

Owners take turns, a slice of time each (deficit round robin). Time that was used is charged to the owner's credit;
whoever has none left gets the next slice at the end of the line, and who has overdrawn by a step that could not be
divided waits for as many rounds as that takes to pay. An owner that comes with credit goes ahead of those that have used
theirs up, so a small request need not wait for a round of large ones. Nobody is held back while nobody else waits.
"""

import select
from collections import deque
from collections.abc import Callable
from typing import Final

SLICE: Final = 0.0005
"""Seconds that an owner gets in a row. What somebody else waits for its turn, step by step of a request, is this long."""


class Owner:
    """Whoever time is spent for."""

    __slots__ = ("calls", "credit", "epoll", "in_line", "used")

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        """What is to be called in its next turn."""

        self.epoll = select.epoll()
        self.credit = SLICE
        self.used = 0.0
        """Seconds so far."""

        self.in_line = False

    def charge(self, seconds: float) -> None:
        """Take note of time that was spent for the owner."""
        self.used += seconds
        self.credit -= seconds


class Turns:
    """The owners that have something to do, in line."""

    def __init__(self) -> None:
        self._with_credit: deque[Owner] = deque()
        self._others: deque[Owner] = deque()

    def __bool__(self) -> bool:
        return bool(self._with_credit or self._others)

    def join(self, owner: Owner) -> None:
        """Stand in line, unless the owner does so already."""
        if not owner.in_line:
            owner.in_line = True
            (self._with_credit if owner.credit > 0 else self._others).append(owner)

    def next(self) -> Owner:
        """Return whose turn it is, with credit for it; the owner has left the line."""
        while True:
            owner = (self._with_credit or self._others).popleft()
            if owner.credit > 0:
                owner.in_line = False
                return owner
            owner.credit += SLICE
            self._others.append(owner)
