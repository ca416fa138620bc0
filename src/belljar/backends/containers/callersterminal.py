"""The terminal of who runs a command, for as long as it is joined to the command's own."""

import atexit
import os
import termios
import tty
from contextlib import suppress
from threading import Lock
from typing import Any, NamedTuple


class Size(NamedTuple):
    """How much a terminal shows."""

    rows: int
    columns: int


def is_terminal(stdin: int, stdout: int) -> bool:
    """Tell whether a command with these streams gets a terminal.

    An engine's terminal takes the place of all three streams. Output that goes elsewhere would have the marks of a
    terminal in it, carriage returns to begin with; so such a command gets pipes.
    """
    return os.isatty(stdin) and os.isatty(stdout)


def size_of(descriptor: int) -> Size | None:
    """Return how large a terminal is; None if nobody has said so."""
    try:
        columns, rows = os.get_terminal_size(descriptor)
    except OSError:
        return None
    return Size(rows, columns) if rows and columns else None


class CallersTerminal:
    """A terminal that hands on every key as it is, until `restore`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        self._lock = Lock()
        self._settings: list[Any] | None = None
        with suppress(termios.error):  # it has hung up
            self._settings = termios.tcgetattr(self._descriptor)
            tty.setraw(self._descriptor, termios.TCSANOW)
        atexit.register(self.restore)  # for a program that ends before the command does

    def size(self) -> Size | None:
        """Return how large it is; None if nobody has said so."""
        return size_of(self._descriptor)

    def restore(self) -> None:
        """Leave it as it was. The second time does nothing."""
        atexit.unregister(self.restore)
        with self._lock, suppress(termios.error):
            if self._descriptor < 0:
                return
            try:
                if self._settings is not None:
                    termios.tcsetattr(self._descriptor, termios.TCSANOW, self._settings)
            finally:
                os.close(self._descriptor)
                self._descriptor = -1
