"""Core dumps, and the limit that prevents them.

Where the kernel is told so, a dump is not a file but the input of a program of the host's, which runs as root and reads
what has crashed. A limit of 1 byte stops that, and a limit of 0 does not: it is about files. But who has a hard limit
of 0, which `sudo` and hardened machines give, cannot set 1 without CAP_SYS_RESOURCE.
"""

import resource
from pathlib import Path

_PATTERN = Path("/proc/sys/kernel/core_pattern")
_NO_FILE = ("|", "@")  # a program, a socket


class CoreDumpsError(Exception):
    """Core dumps cannot be prevented."""


def prevent() -> None:
    """Have neither this process nor what it starts leave a core dump. Raises CoreDumpsError.

    A process that moves to another user namespace does this before, while it may.
    """
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    except ValueError:
        if not _are_files():
            raise CoreDumpsError(
                "core dumps cannot be prevented: they go to a program here, and your hard limit on them is 0, which "
                "does not stop that; let it be 1 or more (ulimit -Hc, /etc/security/limits.conf)"
            ) from None


def preventing_limit() -> int:
    """Return the limit for others to set, who may have no more rights than this process."""
    is_lowest = resource.getrlimit(resource.RLIMIT_CORE)[1] == 0
    return 0 if is_lowest and _are_files() else 1


def _are_files() -> bool:
    return not _PATTERN.read_text().startswith(_NO_FILE)
