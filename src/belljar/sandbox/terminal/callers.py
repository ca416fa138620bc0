"""The terminal of who runs a command, for as long as it is joined to the command's own."""

import atexit
import os
import select
import termios
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock
from typing import Any, Final, NamedTuple

_INTERRUPT: Final = b"\x03"
_INSISTED: Final = 3
_SECONDS_TO_INSIST: Final = 2.0


class Size(NamedTuple):
    """How much a terminal shows."""

    rows: int
    columns: int


def size_of(descriptor: int) -> Size | None:
    """Return how large a terminal is; None if nobody has said so."""
    try:
        columns, rows = os.get_terminal_size(descriptor)
    except OSError:
        return None
    return Size(rows, columns) if rows and columns else None


class CallersTerminal:
    """A terminal among the caller's standard streams. It is as it was until `take`, and again after `release`."""

    def __init__(self, streams: Sequence[int]) -> None:
        stdin, stdout, _ = streams
        self._descriptor = os.dup(next(stream for stream in streams if os.isatty(stream)))
        self.is_shared = not (os.isatty(stdin) and os.isatty(stdout))
        """Whether the command is part of a pipeline. Others may read keys from the terminal, and print lines to it."""
        self._lock = Lock()
        self._settings: list[Any] | None = None
        atexit.register(self.release)  # for a program that ends before the command does

    def fileno(self) -> int:
        """Return a descriptor of it."""
        return self._descriptor

    def is_ours(self) -> bool:
        """Tell whether we may read from it, and change it. Whoever does so in the background is stopped for it."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return True  # not our controlling terminal: nobody can put us into the background

    @property
    def is_taken(self) -> bool:
        """Whether it hands every key on as it is."""
        return self._settings is not None

    def take(self) -> None:
        """Have it hand on every key as it is, and show what comes as it comes, unless others show lines there."""
        with self._lock, suppress(termios.error, ValueError):  # it has hung up, or is closed
            found = termios.tcgetattr(self._descriptor)
            self._settings = self._settings or found
            termios.tcsetattr(self._descriptor, termios.TCSANOW, _raw(found, keep_output=self.is_shared))

    def release(self) -> None:
        """Leave it as it was, if it is still ours to do so."""
        with self._lock, suppress(termios.error):
            settings, self._settings = self._settings, None
            if settings is not None and self.is_ours():
                termios.tcsetattr(self._descriptor, termios.TCSANOW, settings)

    def read(self, most: int) -> bytes | None:
        """Return what was typed; nothing if nothing was, and None if it is not to be read. Raises OSError."""
        with self._lock:
            return os.read(self._descriptor, most) if self.is_taken and self.is_ours() else None

    def hides_keys(self) -> bool:
        """Tell whether somebody else has it show nothing of what is typed, as whoever asks for a password does."""
        with suppress(termios.error, ValueError):
            return not (self.is_taken or termios.tcgetattr(self._descriptor)[3] & termios.ECHO)
        return False

    def has_line(self) -> bool:
        """Tell whether a line was typed that nobody has read, where nobody reads keys one by one."""
        with suppress(termios.error, ValueError):
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            return bool(termios.tcgetattr(self._descriptor)[3] & termios.ICANON and poll.poll(0))
        return False

    def shown(self, output: bytes) -> bytes:
        """Return what to write for something to be shown that comes from another terminal, and has its line ends."""
        is_raw = self.is_taken and not self.is_shared
        return output if is_raw else output.replace(b"\r\n", b"\n")  # it makes that of it as well

    def size(self) -> Size | None:
        """Return how large it is; None if nobody has said so."""
        return size_of(self._descriptor)

    def close(self) -> None:
        """Leave it as it was, for good."""
        atexit.unregister(self.release)
        self.release()
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class Insistence:
    """Whether somebody types Ctrl-C again and again."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=_INSISTED)

    def grows(self, typed: bytes) -> bool:
        """Take note of keys; tell whether by now somebody insists."""
        count = typed.count(_INTERRUPT)
        self._times.extend([time.monotonic()] * count)
        return bool(count) and len(self._times) == _INSISTED and self._times[-1] - self._times[0] < _SECONDS_TO_INSIST


def _raw(settings: list[Any], *, keep_output: bool) -> list[Any]:
    inputs, outputs, controls, locals_, *speeds, characters = settings
    inputs &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
    controls = controls & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    locals_ &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    characters = [*characters]
    characters[termios.VMIN], characters[termios.VTIME] = 0, 0  # whoever else reads from it, we never wait in vain
    return [inputs, outputs if keep_output else outputs & ~termios.OPOST, controls, locals_, *speeds, characters]
