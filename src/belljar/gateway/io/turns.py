"""Whose turn it is: the time of one thread, shared among sandboxes that must not suffer from each other.

Theory of operation
-------------------
All work has an owner: a sandbox, or the gateway itself, whose work comes first and is never interrupted. What an owner
has to do waits in a queue of its own. Owners take turns, a slice of time each (deficit round robin). Time that was used
is charged to the owner's credit; whoever has none left gets the next slice at the end of the line, and who has
overdrawn by a step that could not be divided waits for as many rounds as that takes to pay. An owner that comes with
credit goes ahead of those that have used theirs up, so a small request need not wait for a round of large ones. Nobody
is held back while nobody else waits: rounds in which nobody else has a turn are paid for at once.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SLICE: Final = 0.00025
"""Seconds that an owner gets in a row, and so what others wait for their turn."""

DEEPEST_DEBT: Final = -0.02
"""No step of ours takes longer: who has used more was itself held up, say by a machine that slept."""


class Owner:
    """Whoever time is spent for."""

    __slots__ = ("calls", "credit", "in_line", "used")

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        """What is to be called in its turn."""

        self.credit = SLICE
        self.used = 0.0
        """Seconds so far."""

        self.in_line = False
        """Whether it waits for its turn, or has it."""


class Line(deque[Owner]):
    """The owners that have something to do."""

    def join(self, owner: Owner) -> None:
        """Have an owner stand in line that does not."""
        owner.in_line = True
        if owner.credit > 0:
            self.appendleft(owner)
        else:
            self.append(owner)
