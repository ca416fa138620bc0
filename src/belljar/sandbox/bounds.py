"""What a sandbox may use of the machine's memory, unless somebody says otherwise.

Files in memory, and what programs leave in shared memory, stay when the programs have ended: nobody can be killed to
get such memory back. So all of it together is bounded by about a half of the machine's memory, in parts for each place;
and everything together, programs included, by a larger part, where a control group can be had.
"""

import os
from functools import cache
from pathlib import Path
from typing import Final

from belljar.linux.cgroups.limits import memory_limits

_PLACES: Final = {Path("/tmp"): 4, Path("/var/tmp"): 32, Path("/run"): 64, Path("/dev/shm"): 16}  # noqa: S108 - its own
"""Places in a local sandbox that are empty at first and vanish with it, and which part of the memory they may fill."""

_HOME: Final = 8
_SHARED: Final = 64
"""The same for the home directory, and for shared memory of the System V kind, which is in no file system."""

_BYTES_TO_A_FILE: Final = 16384
"""A file takes some 1.2 KiB of the kernel's memory, however empty it is."""


def machine() -> int:
    """Return how much memory the machine has, in bytes."""
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


@cache
def here() -> int:
    """Return how much memory there is for us: the machine's, or what our own control group leaves us of it."""
    return min([machine(), *memory_limits()])


def in_all(memory: int) -> int:
    """Return what a sandbox may use where there is so much memory."""
    return memory * 3 // 4


def shared(memory: int) -> int:
    """Return what it may use of shared memory of the System V kind."""
    return memory // _SHARED


def sizes(home: Path, memory: int) -> dict[Path, int]:
    """Return the size of each place in memory of a local sandbox."""
    return {place: memory // part for place, part in {**_PLACES, home: _HOME}.items()}


def files(size: int) -> int:
    """Return how many files there may be in a file system in memory of a size."""
    return size // _BYTES_TO_A_FILE
