"""Process groups in a session, as a shell controls them.

A terminal stops only groups that somebody can continue: one of their processes has to have a parent in the same
session, but in another group. So where a command is to be stopped by its terminal, the session's first process stays
beside it, says which group may read from the terminal, and is the parent of somebody in the command's.
"""

import os
import signal
from contextlib import suppress
from typing import Final, NamedTuple

STOPS: Final = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
"""Signals that stop a process."""

WANTS_TERMINAL: Final = frozenset({signal.SIGTTIN, signal.SIGTTOU})
"""Those of them that a background process gets for reading from its terminal, or changing it."""


class SessionJob:
    """A process group, seen from the first process of its session, whose controlling terminal is `terminal`."""

    def __init__(self, group: int, terminal: int) -> None:
        self._group, self._terminal = group, terminal
        self._holder = group
        """Who had the terminal when it was taken away: the job itself, or a job of a shell that is in it."""
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it is from the background that we give the terminal away

    def give_terminal(self) -> None:
        """Have the job read from the terminal, unless it does already."""
        if os.tcgetpgrp(self._terminal) == os.getpgrp():
            try:
                os.tcsetpgrp(self._terminal, self._holder)
            except OSError:  # that group has ended
                os.tcsetpgrp(self._terminal, self._group)

    def take_terminal(self) -> None:
        """Have the job be stopped when it reads from the terminal."""
        holder = os.tcgetpgrp(self._terminal)
        if holder != os.getpgrp():
            self._holder = holder
            os.tcsetpgrp(self._terminal, os.getpgrp())

    def resume(self, *, foreground: bool) -> None:
        """Continue the job, with the terminal or without."""
        if foreground:
            self.give_terminal()
        else:
            self.take_terminal()
        with suppress(ProcessLookupError):
            os.killpg(self._group, signal.SIGCONT)


class Glimpse(NamedTuple):
    """What can be seen of a process by anybody."""

    name: str
    is_stopped: bool


def glimpse(process: int) -> Glimpse | None:
    """Look at a process; None if it is gone."""
    try:
        with open(f"/proc/{process}/stat", errors="replace") as stat:  # noqa: PTH123 - a quick start
            before, _, after = stat.read().rpartition(")")
    except OSError:
        return None
    return Glimpse(before.partition("(")[2], after.split()[0] == "T")
