"""Fair turns: the time of one thread, shared among sandboxes that must not delay each other.

Theory of operation
-------------------
All work has an owner: a sandbox, or the process itself, whose work comes first and is never interrupted. What an owner
has to do waits in a queue of its own. Owners take turns, a slice of time each (deficit round robin). Time that was used
is charged to the owner's credit. An owner without credit gets the next slice at the end of the line, and one that has
overdrawn by a step that could not be divided waits for as many rounds as that takes to pay. An owner that comes with
credit goes ahead of those that have used theirs up, so a small request need not wait for a round of large ones. No
owner is held back while no other waits: rounds in which no other has a turn are paid for at once.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SLICE: Final = 0.00025
"""Seconds that an owner gets in a row, and so what others wait for their turn."""

DEEPEST_DEBT: Final = -0.02
"""No step of ours takes longer: an owner that has used more was itself held up, for example by a machine that slept."""


class Owner:
    """The account that time is charged to."""

    __slots__ = ("calls", "credit", "in_line", "used")

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        """What is to be called in its turn."""

        self.credit = SLICE
        self.used = 0.0
        """Seconds so far."""

        self.in_line = False
        """Whether it waits for its turn, or has it."""

    def charge(self, seconds: float) -> None:
        """Charge time."""
        self.used += seconds
        self.credit = max(self.credit - seconds, DEEPEST_DEBT)


class Line(deque[Owner]):
    """The owners that have something to do."""

    def join(self, owner: Owner) -> None:
        """Add an owner that is not in line."""
        owner.in_line = True
        if owner.credit > 0:
            self.appendleft(owner)
        else:
            self.append(owner)

    def begin_turn(self) -> Owner | None:
        """Return the owner whose turn it is, with credit for it; None if it still has to pay for earlier turns."""
        owner = self.popleft()
        if owner.credit <= 0:
            # Rounds in which no other owner has a turn take no time: they are paid for at once.
            owner.credit = owner.credit + SLICE if self else owner.credit % SLICE or SLICE
            if owner.credit <= 0:
                self.append(owner)
                return None
        return owner

    def end_turn(self, owner: Owner, seconds: float) -> None:
        """Charge an owner for its turn, and let it join the line again if it has more to do."""
        owner.charge(seconds)
        owner.in_line = False
        if owner.calls:
            self.join(owner)
