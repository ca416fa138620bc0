"""The progress of a run: a table that is drawn over on a terminal, plain lines in a pipe."""

import shutil
import time
from collections.abc import Iterable
from threading import Lock
from typing import Final, TextIO

import click

from belljar.cli.options.amounts import written_seconds
from belljar.errors import printable
from belljar.harness.trials.journal import Journal, TrialState

_DRAW_SECONDS: Final = 0.2
_MAX_ROWS: Final = 20
_UP: Final = "\033[{}F"
_ERASE_BELOW: Final = "\033[J"


class PlainProgress:
    """Writes a line whenever something happens in a trial."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def __call__(self, journal: Journal) -> None:
        """Write what has happened."""
        click.echo(f"{journal.task}: {printable(journal.note)}", file=self._output)

    def close(self) -> None:
        """Do nothing: every line is written already."""


class LiveProgress:
    """Draws a table of all trials, and draws it again when something has happened."""

    def __init__(self, output: TextIO) -> None:
        self._output, self._journals = output, dict[str, Journal]()
        self._rows, self._drawn = 0, 0.0
        self._lock = Lock()

    def __call__(self, journal: Journal) -> None:
        """Draw again, but not more often than somebody could read."""
        self._journals[journal.task] = journal
        if time.monotonic() - self._drawn >= _DRAW_SECONDS:
            self._draw()

    def close(self) -> None:
        """Draw the last state."""
        self._draw()

    def _draw(self) -> None:
        with self._lock:
            self._drawn = time.monotonic()
            width = shutil.get_terminal_size().columns
            lines = [line[: width - 1] for line in self._lines()]
            up = _UP.format(self._rows) if self._rows else ""
            self._output.write(up + _ERASE_BELOW + "".join(f"{line}\n" for line in lines))
            self._output.flush()
            self._rows = len(lines)

    def _lines(self) -> Iterable[str]:
        yield f"{'TASK':<24} {'STATE':<8} {'TIME':>6} {'SUBMITTED':>9} {'BEST':>6}  LATEST"
        journals = list(self._journals.values())
        journals.sort(key=lambda journal: journal.state is TrialState.DONE)  # those that run come first
        for journal in journals[:_MAX_ROWS]:
            best = f"{journal.best:.1f}" if journal.best is not None else "-"
            seconds = written_seconds(journal.seconds)
            yield (
                f"{journal.task:<24.24} {journal.state.value:<8} {seconds:>6} {journal.submissions:>9} {best:>6}  "
                f"{printable(journal.note)}"
            )
        if len(journals) > _MAX_ROWS:
            yield f"… and {len(journals) - _MAX_ROWS} more"
