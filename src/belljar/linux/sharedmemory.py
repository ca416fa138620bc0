"""Bounds on what programs leave in an IPC namespace: shared memory, messages and semaphores of the System V kind.

They stay when the programs have ended, and by default there is next to no bound. Who owns the namespace can set one
since Linux 6.9; before that only root of the machine can, and then a control group for memory is the only bound.
"""

import os
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def settings(size: int) -> dict[str, str]:
    """Return the kernel's settings that bound shared memory by a size, and the rest by a few MiB."""
    return {
        "shmmax": str(size),
        "shmall": str(size // _PAGE),
        "msgmni": "1024",  # queues, which by default have 16 KiB
        "sem": "1000 32000 500 1024",  # semaphores in a set, in all, operations in a call, sets
    }


def bound(size: int) -> bool:
    """Bound what there may be in the caller's IPC namespace; tell whether the kernel lets us."""
    try:
        for name, value in settings(size).items():
            setting = os.open(f"/proc/sys/kernel/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(setting, value.encode())
            finally:
                os.close(setting)
    except OSError:
        return False
    return True


def can_be_bounded() -> bool:
    """Tell whether the kernel lets the owner of an IPC namespace do that."""
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 9)
