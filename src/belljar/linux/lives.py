"""A process that can be found again, by whoever comes later: its number alone would be somebody else's one day."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from belljar.linux.descriptors import is_readable

_FORKED_WITHOUT_EXEC: Final = 0x40
"""PF_FORKNOEXEC: the kernel takes it from a process once no other program is left in it."""


class Life(NamedTuple):
    """One process of one run of the machine."""

    pid: int
    started: int
    """In clock ticks since the machine started."""

    boot: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return the life of a process that is there. Raises ProcessLookupError."""
        return cls(pid, _started(pid), _boot())

    def hold(self) -> int:
        """Return a descriptor of the process. Raises ProcessLookupError if it has ended."""
        descriptor = os.pidfd_open(self.pid)
        # Held first and looked at then: the number cannot change hands any more.
        with suppress(ProcessLookupError):
            if self == Life.of(self.pid) and not has_ended(descriptor):
                return descriptor
        os.close(descriptor)
        raise ProcessLookupError(f"process {self.pid} has ended")


def has_ended(descriptor: int, timeout: float = 0) -> bool:
    """Tell whether the process that a descriptor holds has ended, or ends in time."""
    return is_readable(descriptor, timeout)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process's first thread has started; none if it has ended."""
    with suppress(OSError):
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    return []


def is_stopped(pid: int) -> bool:
    """Tell whether a process was stopped by a signal. Raises ProcessLookupError."""
    return _stat(pid)[0] == b"T"


def runs_own_program(pid: int) -> bool:
    """Tell whether a process has become a program since it was forked. Raises ProcessLookupError.

    Until then a signal may be taken by a thread of whoever forked it, which goes away when the program comes.
    """
    return not int(_stat(pid)[6]) & _FORKED_WITHOUT_EXEC


def _started(pid: int) -> int:
    return int(_stat(pid)[19])


def _stat(pid: int) -> list[bytes]:
    """Return what the kernel tells of a process behind its name, which may have anything in it."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(f"there is no process {pid}") from None


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
