"""The command's job, as the command line sees it: whether it is stopped, and how it goes on."""

import os
import signal
import socket
from contextlib import suppress
from typing import Final

from belljar.backends.local.child import leading
from belljar.linux.jobs import glimpse

_PATIENCE: Final = 5.0
"""Seconds until a leader that does not answer is taken for lost."""


class SandboxJob:
    """What a session's leader and a look at the command tell of a job."""

    def __init__(self, channel: socket.socket, leader: int) -> None:
        self._channel, self._leader = channel, leader
        channel.settimeout(0)
        self._was_stopped = False

    def stopped_by(self, command: int | None) -> int | None:
        """Return the signal that has stopped the job; None if it runs.

        Who has stopped nobody but itself is known by the second look: at the first, the leader might not know yet.
        """
        with suppress(OSError):
            if told := self._channel.recv(1):
                return told[0]
        seen = glimpse(command) if command is not None else None
        was_stopped, self._was_stopped = self._was_stopped, seen is not None and seen.is_stopped
        return signal.SIGSTOP if was_stopped and self._was_stopped else None

    def resume(self, command: int | None, *, foreground: bool) -> None:
        """Have the job go on, with the terminal or without."""
        self._was_stopped = False
        self._channel.settimeout(_PATIENCE)
        with suppress(OSError):
            self._channel.send(leading.FOREGROUND if foreground else leading.BACKGROUND)
            while self._channel.recv(1) not in (leading.RESUMED, b""):
                pass  # stops that it has been continued from
        self._channel.settimeout(0)
        if command is not None:
            with suppress(ProcessLookupError):
                os.killpg(os.getpgid(command), signal.SIGCONT)

    def close(self) -> None:
        """Let the leader go."""
        self._channel.close()
        os.waitpid(self._leader, 0)
