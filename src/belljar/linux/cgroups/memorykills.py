"""What the kernel has ended for want of memory, as the control groups of either version count it."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_COUNTING: Final = ("memory.events", "memory.oom_control")
_COUNT: Final = "oom_kill "


class MemoryWatch:
    """Notices what is ended in some groups from now on."""

    def __init__(self, groups: Iterable[Path]) -> None:
        self._files = [file for group in groups for name in _COUNTING if (file := group / name).exists()]
        self._before = self._count()

    @property
    def has_lost_sight(self) -> bool:
        """Whether groups that were there are gone, and their counts with them."""
        return self._before is not None and self._count() is None

    def ran_out(self) -> bool:
        """Tell whether the kernel has ended a process in them for want of memory; False where nobody knows."""
        now = self._count()
        return self._before is not None and now is not None and now > self._before

    def _count(self) -> int | None:
        counts: list[int] = []
        for file in self._files:
            with suppress(OSError):
                lines = file.read_text().splitlines()
                counts += [int(line.removeprefix(_COUNT)) for line in lines if line.startswith(_COUNT)]
        return sum(counts) if counts else None
