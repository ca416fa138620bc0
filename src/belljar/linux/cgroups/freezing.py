"""Control groups whose processes can be stopped where they are, without their noticing (version 2 only).

Such a group takes no controller. It can be made wherever the caller may make groups, also on systems that still keep
their limits in groups of version 1.
"""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from belljar.linux.cgroups.limits import PREFIX, own_place

_SWITCH: Final = "cgroup.freeze"
_SECONDS: Final = 10.0
_PAUSE: Final = 0.001


def make_freezable(name: str, groups: Iterable[Path]) -> Path | None:
    """Return one of some groups, or a new one, that can be frozen; None where there is none to be had."""
    for group in groups:
        if (group / _SWITCH).exists():
            return group  # a process is in one group of version 2, and no more
    place = own_place()
    if place is None:
        return None
    group = place / f"{PREFIX}{name}"
    with suppress(OSError):
        group.mkdir()
        if os.access(group / _SWITCH, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK):
            return group
        group.rmdir()
    return None


def freeze(group: Path, *, frozen: bool) -> None:
    """Freeze a group's processes, or thaw them, and wait until it is done. Raises OSError, TimeoutError."""
    (group / _SWITCH).write_text("1" if frozen else "0")
    deadline = time.monotonic() + _SECONDS
    while f"frozen {frozen:d}\n" not in (group / "cgroup.events").read_text():
        if time.monotonic() > deadline:
            raise TimeoutError("the processes do not stop; the kernel may be waiting for a disk")
        time.sleep(_PAUSE)


def is_frozen(group: Path) -> bool:
    """Tell whether a group's processes are, or are about to be, frozen."""
    return (group / _SWITCH).read_text().strip() == "1"
