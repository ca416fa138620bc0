"""What a process can ask the kernel for on its own behalf (prctl)."""

import ctypes
import os
from signal import Signals
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4


def get_signal_when_parent_dies(signal: Signals) -> None:
    """Have the kernel send us a signal when the thread that started this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def keep_memory_private() -> None:
    """Have other processes of the same user keep out: no debugger, no look at our memory, no core dump."""
    _prctl(_PR_SET_DUMPABLE, 0)


def _prctl(option: int, argument: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
