"""Tables: aligned everywhere, coloured on a terminal (click drops the colours in a pipe)."""

from collections.abc import Iterable, Sequence

import click

COLOURS = {
    **dict.fromkeys(("allow", "ok", "holds", "active"), "green"),
    **dict.fromkeys(("deny", "missing", "broken", "unproven", "inactive"), "red"),
    **dict.fromkeys(("note", "out of scope", "unknown"), "yellow"),
}


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under a head, each column as wide as its widest cell."""
    lines = [list(head), *(list(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head) - 1)]
    for number, line in enumerate(lines):
        cells = [cell.ljust(width) for cell, width in zip(line, [*widths, 0], strict=True)]
        if number == 0:
            click.secho("  ".join(cells).rstrip(), bold=True)
        else:
            click.echo("  ".join(_coloured(cell, text) for cell, text in zip(cells, line, strict=True)).rstrip())


def _coloured(cell: str, text: str) -> str:
    return click.style(cell, fg=COLOURS[text]) if text in COLOURS else cell
