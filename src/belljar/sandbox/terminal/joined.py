"""A terminal of the sandbox's own, joined to the user's.

A program that holds its user's terminal can type into it, and can go on reading from it when it should be gone. So
where a standard stream is a terminal, the sandbox gets a new one, and two threads carry the bytes. What becomes of the
other streams, `streams` says.

Output is always carried. Input is carried, and the user's terminal changed, only while they are joined: that is from
the start where the command has the terminal for itself, and otherwise once it reads from its own.
"""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from belljar.sandbox.terminal.callers import CallersTerminal, Insistence

_CHUNK: Final = 65536
_SECONDS_TO_SETTLE: Final = 1.0
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Terminal:
    """The standard streams of a sandbox, one of which is a terminal at least."""

    def __init__(self) -> None:
        self._ours = [stream for stream in (0, 1, 2) if os.isatty(stream)]
        self.callers = CallersTerminal((0, 1, 2))
        self.begins_joined = not self.callers.is_shared and self.callers.is_ours()
        """Whether the command has the user's terminal for itself."""
        self._output = threading.Thread(target=self._carry_output, daemon=True)
        self._input = threading.Thread(target=self._carry_input, daemon=True)
        self._changed = os.eventfd(0)
        self._is_over = False
        self._controller, self._side = pty.openpty()
        self.on_hangup: Callable[[], None] = _nothing
        """Called in another thread when the user's terminal is gone; the next, when Ctrl-C is typed again and again,
        with the process group that it interrupts."""
        self.on_insistence: Callable[[int | None], None] = _nothing
        self._copy_size()

    def streams(self) -> tuple[int, ...]:
        """Return the descriptors that the sandbox gets as its standard streams."""
        return tuple(self._side if stream in self._ours else stream for stream in (0, 1, 2))

    def start(self) -> None:
        """Begin to carry bytes, once the sandbox has its end."""
        os.close(self._side)
        signal.signal(signal.SIGWINCH, lambda *_: self._copy_size())
        self._output.start()
        self._input.start()

    def join(self) -> None:
        """Carry input as well; the user's terminal hands on every key."""
        self._copy_size()
        self.callers.take()
        os.eventfd_write(self._changed, 1)

    def part(self) -> None:
        """Carry no more input, and leave the user's terminal as it was."""
        self._settle()
        self.callers.release()

    def finish(self) -> None:
        """Show the last of the output, and leave the user's terminal as it was."""
        self._output.join()
        self._is_over = True
        os.eventfd_write(self._changed, 1)
        self._input.join()
        self.callers.close()
        os.close(self._controller)
        sys.stdout.flush()

    def _carry_input(self) -> None:
        insistence = Insistence()
        while not self._is_over:
            poll = select.poll()
            poll.register(self._changed, select.POLLIN)
            if self.callers.is_taken:
                poll.register(self.callers, select.POLLIN)
            ready = dict(poll.poll())
            if self._changed in ready:
                os.eventfd_read(self._changed)
            try:
                typed = self.callers.read(_CHUNK) if self.callers.fileno() in ready else None
                if typed:
                    group = self._interrupted_group()  # before a program is told, and makes another terminal of it
                    _write_all(self._controller, typed)
                    if group is not None and insistence.grows(typed):
                        self.on_insistence(group)
            except OSError:
                typed = b""
            if typed == b"" and ready[self.callers.fileno()] & _GONE:
                self.on_hangup()
                return

    def _interrupted_group(self) -> int | None:
        """Return the process group that the terminal interrupts at Ctrl-C; None if a program reads keys itself."""
        with suppress(OSError, termios.error):
            flags = termios.tcgetattr(self._controller)[3]
            if flags & termios.ISIG and flags & termios.ICANON:
                return os.tcgetpgrp(self._controller)
        return None

    def _carry_output(self) -> None:
        target = 1 if 1 in self._ours else self._ours[-1]
        with suppress(OSError):  # the last process inside has closed its end
            while data := os.read(self._controller, _CHUNK):
                with suppress(OSError):  # the user's terminal is gone, and who wrote this will be told in another way
                    _write_all(target, self.callers.shown(data))

    def _settle(self) -> None:
        """Wait for what was already written inside to be shown."""
        deadline = time.monotonic() + _SECONDS_TO_SETTLE
        poll = select.poll()
        poll.register(self._controller, select.POLLIN)
        while poll.poll(0) and time.monotonic() < deadline:
            time.sleep(0.001)

    def _copy_size(self) -> None:
        with suppress(OSError):
            size = fcntl.ioctl(self.callers, termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
            fcntl.ioctl(self._controller, termios.TIOCSWINSZ, size)


def _nothing(*_: int | None) -> None:
    """Nobody wants to know."""


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
