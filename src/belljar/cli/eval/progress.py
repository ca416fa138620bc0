"""The progress of a run: a table that is drawn over on a terminal, plain lines in a pipe."""

import os
from collections.abc import Iterator
from threading import Event, Lock, Thread
from typing import Final, TextIO

import click

from belljar.cli.options.amounts import written_seconds
from belljar.errors import printable
from belljar.harness.trials.journal import Journal, TrialState

_DRAW_SECONDS: Final = 0.5
_MAX_ROWS: Final = 20
_MIN_TASK_WIDTH: Final = 12
_OTHER_LINES: Final = 4
"""Lines of a table that are no trials: its head, its foot, a notice, and the line with the cursor."""

_UP: Final = "\033[{}F"
_ERASE_BELOW: Final = "\033[J"


class PlainProgress:
    """Writes a line whenever something happens in a trial."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def __call__(self, journal: Journal) -> None:
        """Write what has happened."""
        click.echo(f"{journal.task}: {printable(journal.note)}", file=self._output)

    def notify(self, notice: str) -> None:
        """Write a line about the run."""
        click.echo(notice, file=self._output)

    def close(self) -> None:
        """Do nothing: every line is written already."""


class LiveProgress:
    """Draws a table of all trials on a terminal, twice a second: times go on while nothing happens."""

    def __init__(self, output: TextIO) -> None:
        self._output, self._journals = output, dict[str, Journal]()
        self._rows, self._notice = 0, ""
        self._lock, self._closed = Lock(), Event()
        self._drawing = Thread(target=self._draw_until_closed, name="belljar-progress", daemon=True)
        self._drawing.start()

    def __call__(self, journal: Journal) -> None:
        """Add a trial to the table."""
        with self._lock:
            self._journals[journal.task] = journal

    def notify(self, notice: str) -> None:
        """Keep a line about the run below the table."""
        with self._lock:
            self._notice = notice

    def close(self) -> None:
        """Draw the last state, and nothing after it."""
        self._closed.set()
        self._drawing.join()
        self._draw()

    def _draw_until_closed(self) -> None:
        while not self._closed.wait(_DRAW_SECONDS):
            self._draw()

    def _draw(self) -> None:
        try:
            width, height = os.get_terminal_size(self._output.fileno())
        except OSError:
            width, height = 0, 0
        width, height = width or 80, height or 24  # serial lines and some CI systems have a terminal of no size
        with self._lock:
            if not (self._journals or self._notice):
                return
            lines = [line[: width - 1] for line in self._lines(width, min(_MAX_ROWS, height - _OTHER_LINES))]
        up = _UP.format(self._rows) if self._rows else ""
        self._output.write(up + _ERASE_BELOW + "".join(f"{line}\n" for line in lines))
        self._output.flush()
        self._rows = len(lines)

    def _lines(self, width: int, rows: int) -> Iterator[str]:
        longest = max(map(len, self._journals), default=0)
        column = max(min(longest, width // 3), _MIN_TASK_WIDTH)
        yield f"{'TASK':<{column}} {'STATE':<8} {'TIME':>6} {'SUBMITTED':>9} {'BEST':>6}  LATEST"
        journals = list(self._journals.values())
        journals.sort(key=lambda journal: journal.state is TrialState.DONE)  # those that run come first
        shown = journals[: max(rows, 1)]
        for journal in shown:
            best = f"{journal.best:.1f}" if journal.best is not None else "-"
            seconds = written_seconds(journal.seconds)
            yield (
                f"{journal.task:<{column}.{column}} {journal.state.value:<8} {seconds:>6} {journal.submissions:>9} "
                f"{best:>6}  {printable(journal.note)}"
            )
        if len(journals) > len(shown):
            yield f"… and {len(journals) - len(shown)} more"
        if self._notice:
            yield self._notice
