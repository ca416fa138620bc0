"""Moments at which something ends, on a clock that nobody can set.

People are told a time of day, and a later life of the server begins with it. While the server lives, what counts is the
time since the machine was started, sleep included. A clock that was set back between two lives cannot stretch anything
beyond what was asked for: it may begin anew at most.
"""

import time
from typing import NamedTuple, Self


def since_boot() -> float:
    """Return the seconds since the machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Deadline(NamedTuple):
    """When something ends."""

    at: float
    """Seconds since 1970."""

    due: float
    """Seconds since the machine was started."""

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the moment that is so far away."""
        return cls(time.time() + seconds, since_boot() + seconds)

    @classmethod
    def remembered(cls, at: float, seconds: float) -> Self:
        """Return the moment that an earlier life of the server has set, when it was `seconds` away."""
        left = min(max(at - time.time(), 0.0), seconds)
        return cls(at, since_boot() + left)

    @property
    def is_over(self) -> bool:
        """Tell whether it has come."""
        return since_boot() >= self.due
