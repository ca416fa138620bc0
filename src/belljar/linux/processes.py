"""What a process can ask the kernel for on its own behalf."""

import ctypes
import os
import resource
import signal
from typing import Final

from belljar.linux.seccomp.syscalls import NUMBERS

_CLONE_PARENT: Final = 0x00008000
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36

_libc = ctypes.CDLL(None, use_errno=True)


def get_signal_when_parent_dies(number: signal.Signals) -> None:
    """Have the kernel send us a signal when the thread that started this process ends."""
    prctl(_PR_SET_PDEATHSIG, number)


def keep_memory_private() -> None:
    """Have other processes of the same user keep out: no debugger, no look at our memory, no core dump."""
    prctl(_PR_SET_DUMPABLE, 0)


def make_dumpable() -> None:
    """Give this process its files in /proc, which execve(2) gives to root if the program has file capabilities."""
    prctl(_PR_SET_DUMPABLE, 1)


def allow_most_descriptors() -> None:
    """Raise our own limit on descriptors as far as we may; what we start from then on has it, too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def restore_signals() -> None:
    """Take back what Python ignores on our behalf, before we become another program."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def inherit_orphans() -> None:
    """Become the parent of descendants whose own parent has ended."""
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def fork_sibling() -> int:
    """Fork a child that is our parent's child, not ours; return 0 in it. For a process without threads."""
    number = getattr(NUMBERS["clone"], os.uname().machine)
    # The interpreter is told nothing, and does not even let go of its lock: whoever is forked so executes a program.
    libc = ctypes.PyDLL(None, use_errno=True)
    child: int = libc.syscall(number, ctypes.c_ulong(_CLONE_PARENT | signal.SIGCHLD), 0, 0, 0, 0)
    if child < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return child


def prctl(option: int, *arguments: int) -> None:
    """Call prctl(2) with up to four numbers. Raises OSError."""
    four = (ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:4])
    if _libc.prctl(option, *four) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
