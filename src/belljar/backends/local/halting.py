"""Every process of a running command's sandbox is stopped, or continued.

The signal is sent from the PID namespace around the sandbox's, in one step that nobody can outrun by forking, and where
no signal from inside can reach the sender. (A process that had stopped itself before is continued with the others.)
"""

import fcntl
import os
import signal
from contextlib import suppress
from typing import Final, NoReturn

from belljar.linux.namespaces import CLONE_NEWPID, CLONE_NEWUSER, setns

_NS_GET_USERNS: Final = 0xB701


def send_all(outer: int, number: int, *, is_stand_in: bool) -> bool:
    """Send a signal to all that is inside; `outer` is the first process of the namespace around the sandbox's.

    Return whether that was done: it takes processes, and the user may have no more of them.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # our handlers are not for the children
    try:
        child = os.fork()
        if child == 0:
            _send_from_around(outer, number, is_stand_in=is_stand_in)
        return os.waitpid(child, 0)[1] == 0
    except OSError:
        return False
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send_from_around(outer: int, number: int, *, is_stand_in: bool) -> NoReturn:
    failed = 1
    try:
        with suppress(OSError):  # the sandbox has just ended
            _enter(outer, is_stand_in=is_stand_in)
            sender = os.fork()
            if sender == 0:
                os.kill(-1, number)
            else:
                os.waitpid(sender, 0)
            failed = 0
    finally:
        os._exit(failed)


def _enter(outer: int, *, is_stand_in: bool) -> None:
    """Have children be born in the namespace, with every right in it."""
    processes = os.open(f"/proc/{outer}/ns/pid", os.O_RDONLY)
    users = fcntl.ioctl(processes, _NS_GET_USERNS)
    if is_stand_in:
        os.setgroups([])
    setns(users, CLONE_NEWUSER)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    setns(processes, CLONE_NEWPID)
