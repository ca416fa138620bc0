"""A terminal taken over for a while: drawn over and over, left as it was found."""

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from types import FrameType
from typing import Final, NamedTuple, Self

import click

_ENTER: Final = "\033[?1049h\033[?25l"
"""The other screen, without a cursor."""

_LEAVE: Final = "\033[?25h\033[?1049l"
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\033[H", "\033[K", "\033[J"
_TERMINATED: Final = 128 + signal.SIGTERM


class ScreenLine(NamedTuple):
    """A line in one colour, which is cut where the terminal ends."""

    text: str
    colour: str | None = None
    bold: bool = False


class Screen:
    """The terminal of standard input and output."""

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(sys.stdin)
        self._on_end = signal.signal(signal.SIGTERM, _end)
        tty.setcbreak(sys.stdin)
        _write(_ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        _write(_LEAVE)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)
        signal.signal(signal.SIGTERM, self._on_end)

    @property
    def height(self) -> int:
        """How many lines there are."""
        return shutil.get_terminal_size().lines

    def draw(self, lines: Sequence[ScreenLine]) -> None:
        """Show these lines, and nothing else."""
        size = shutil.get_terminal_size()
        shown = (
            click.style(line.text[: size.columns], fg=line.colour, bold=line.bold or None) + _REST_OF_LINE
            for line in lines[: size.lines]
        )
        _write(_HOME + "\r\n".join(shown) + _REST_OF_SCREEN)

    def key(self, seconds: float) -> str:
        """Return what was typed, waiting for it for a while; nothing if nothing was."""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return os.read(sys.stdin.fileno(), 64).decode(errors="replace") if ready else ""


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(_TERMINATED)
