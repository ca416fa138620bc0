"""What was found out about a machine, as every backend tells it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineFinding:
    """One thing that was looked at."""

    what: str
    holds: bool
    detail: str
    remedy: str = ""
    needed: bool = True
    """Whether sandboxes cannot be made without it."""
