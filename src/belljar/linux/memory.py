"""How much memory there is for the caller: the machine's, or what its control group leaves of it."""

import os
from contextlib import suppress
from functools import cache
from pathlib import Path

from belljar.linux.cgroups import place_of


@cache
def memory_here() -> int:
    """Return how many bytes the caller could use."""
    machine: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = place_of(os.getpid(), "memory")
    return min([machine, *(_limits(group) if group is not None else ())])


def _limits(group: Path) -> list[int]:
    """Return the limits of a group of either version, and of those around it."""
    limits: list[int] = []
    for directory in (group, *group.parents):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # "max" is none, and none of ours is beyond the root of all groups
                limits.append(int((directory / name).read_text()))
    return limits
