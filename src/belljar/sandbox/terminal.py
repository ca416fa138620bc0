"""A terminal of the sandbox's own, joined to the user's.

A program that holds its user's terminal can type into it, and can go on reading from it when it should be gone. So
where a standard stream is a terminal, the sandbox gets a new one, and two threads carry the bytes. Streams that are
files or pipes are handed over as they are.
"""

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
import threading
import tty
from typing import Any

_CHUNK = 65536


class Terminal:
    """The standard streams of a sandbox."""

    def __init__(self) -> None:
        self._ours = [stream for stream in (0, 1, 2) if os.isatty(stream)]
        self._settings: list[Any] | None = None
        self._output: threading.Thread | None = None
        self._controller = self._side = -1
        if self._ours:
            self._controller, self._side = pty.openpty()
            self._copy_size()

    def streams(self) -> tuple[int, ...]:
        """Return the descriptors that the sandbox gets as its standard streams."""
        return tuple(self._side if stream in self._ours else stream for stream in (0, 1, 2))

    def start(self) -> None:
        """Begin to carry bytes, once the sandbox has its end."""
        if not self._ours:
            return
        os.close(self._side)
        signal.signal(signal.SIGWINCH, lambda *_: self._copy_size())
        if 0 in self._ours:
            self._settings = termios.tcgetattr(0)
            tty.setraw(0)
            threading.Thread(target=self._carry_input, daemon=True).start()
        self._output = threading.Thread(target=self._carry_output, daemon=True)
        self._output.start()

    def finish(self) -> None:
        """Show the last of the output, and leave the user's terminal as it was."""
        if self._output is not None:
            self._output.join()
            os.close(self._controller)
        if self._settings is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, self._settings)
        sys.stdout.flush()

    def _carry_input(self) -> None:
        try:
            while data := os.read(0, _CHUNK):
                _write_all(self._controller, data)
        except OSError:
            return  # either end is gone

    def _carry_output(self) -> None:
        target = 1 if 1 in self._ours else self._ours[-1]
        try:
            while data := os.read(self._controller, _CHUNK):
                _write_all(target, data)
        except OSError:
            return  # the last process inside has closed its end

    def _copy_size(self) -> None:
        size = fcntl.ioctl(self._ours[0], termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, size)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
