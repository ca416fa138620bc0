"""The caller's terminal, joined to one of an engine's: keys go through the pump, and so does what is shown."""

import os
import select
import termios
from collections.abc import Callable
from typing import Final, Protocol

from belljar.backends.interface import Streams
from belljar.sandbox.terminal.callers import CallersTerminal, Insistence

_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Source(Protocol):
    """Where a command's input comes from."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable; -1 if nothing is to be read for now."""

    def read(self, most: int, events: int) -> bytes | None:
        """Return what there is; nothing at the end, and None if there is nothing yet. Raises OSError."""

    def shown(self, output: bytes) -> bytes:
        """Return what to write for output to be shown."""

    def close(self) -> None:
        """Let go of it."""


class ContainerTerminal:
    """What is typed, while the caller's terminal is joined to the command's."""

    def __init__(self, streams: Streams) -> None:
        self.callers = CallersTerminal(streams)
        self.begins_joined = self.callers.is_ours()
        self.is_monitored = False
        """Whether the command has a parent that sees it stop. Where nobody here sees that parent, it has none."""
        self.changed = os.eventfd(0, os.EFD_NONBLOCK)
        """Readable when `fileno` has changed."""
        self.on_hangup: Callable[[], None] = _nothing
        self.on_insistence: Callable[[int | None], None] = _nothing
        self.is_left_keys: Callable[[], bool] = bool
        """Tells whether the command's own terminal makes something of Ctrl-C."""
        self._insistence = Insistence()

    def join(self) -> None:
        """Carry input; the caller's terminal hands on every key."""
        self.callers.take()
        os.eventfd_write(self.changed, 1)

    def part(self) -> None:
        """Carry no more input, and leave the caller's terminal as it was."""
        self.callers.release()

    def fileno(self) -> int:
        """See `Source`."""
        return self.callers.fileno() if self.callers.is_taken else -1

    def read(self, most: int, events: int) -> bytes | None:
        """See `Source`."""
        try:
            typed = self.callers.read(most)
        except OSError:
            typed = b""
        if typed and self._insistence.grows(typed) and self.is_left_keys():
            self.on_insistence(None)
        if typed or not events & _GONE:
            return typed or None
        self.on_hangup()
        return b""

    def shown(self, output: bytes) -> bytes:
        """See `Source`."""
        return self.callers.shown(output)

    def close(self) -> None:
        """Leave the caller's terminal as it was, for good."""
        self.callers.close()


class Input:
    """A file, a pipe, or a terminal that a command without one reads lines from."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        self._is_terminal = os.isatty(descriptor)

    def fileno(self) -> int:
        """See `Source`."""
        return -1 if self._is_terminal and not self._reads_lines_for_us() else self._descriptor

    def read(self, most: int, _: int) -> bytes | None:
        """See `Source`."""
        try:
            return os.read(self._descriptor, most)
        except BlockingIOError:
            return None

    def shown(self, output: bytes) -> bytes:
        """See `Source`."""
        return output

    def close(self) -> None:
        """See `Source`."""
        os.close(self._descriptor)

    def _reads_lines_for_us(self) -> bool:
        """Tell whether we are in the foreground, and nobody else in our pipeline reads the keys one by one."""
        try:
            lines = bool(termios.tcgetattr(self._descriptor)[3] & termios.ICANON)
            return lines and os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except (OSError, termios.error):
            return True  # not our controlling terminal, or gone


def terminal_for(streams: Streams) -> ContainerTerminal | None:
    """Return the terminal of a command with these streams; None if it gets none.

    An engine's terminal takes the place of all three streams. Output that goes elsewhere would have the marks of a
    terminal in it, carriage returns to begin with; so such a command gets pipes.
    """
    return ContainerTerminal(streams) if os.isatty(streams.stdin) and os.isatty(streams.stdout) else None


def _nothing(*_: int | None) -> None:
    """Nobody wants to know."""
