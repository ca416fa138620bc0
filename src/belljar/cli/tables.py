"""Tables: aligned everywhere, coloured on a terminal (click drops the colours in a pipe)."""

import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import click

COLOURS = {
    **dict.fromkeys(("allow", "ok", "holds", "active"), "green"),
    **dict.fromkeys(("deny", "missing", "broken", "unproven", "inactive"), "red"),
    **dict.fromkeys(("note", "out of scope", "unknown"), "yellow"),
}

_GAP: Final = "  "
_INDENT: Final = "    "


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a head, each column as wide as its widest cell.

    On a terminal, what does not fit beside the cells before it is printed below them. It is not wrapped: a command that
    the terminal wraps can be copied in one piece.
    """
    lines = [list(head), *(list(row) for row in rows)]
    widths = [*(max(len(line[column]) for line in lines) for column in range(len(head) - 1)), 0]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for number, line in enumerate(lines):
        fitting = _count_fitting(line, widths, room)
        beside = zip(line[:fitting], widths, strict=False)
        if number == 0:
            click.secho(_GAP.join(cell.ljust(width) for cell, width in beside).rstrip(), bold=True)
            continue
        click.echo(_GAP.join(_coloured(cell, width) for cell, width in beside).rstrip())
        for cell in filter(None, line[fitting:]):
            click.echo(_INDENT + _coloured(cell, 0))


def _count_fitting(line: Sequence[str], widths: Sequence[int], room: int) -> int:
    position = 0
    for number, (cell, width) in enumerate(zip(line, widths, strict=True)):
        if number > 0 and position + len(cell) > room:
            return number
        position += width + len(_GAP)
    return len(line)


def _coloured(cell: str, width: int) -> str:
    padded = cell.ljust(width)
    return click.style(padded, fg=COLOURS[cell]) if cell in COLOURS else padded
