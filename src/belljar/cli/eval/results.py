"""Results of a run, as tables."""

from pathlib import Path
from typing import Final

import click

from belljar.cli.options.amounts import written_seconds
from belljar.cli.tables import print_table
from belljar.errors import printable
from belljar.harness.results.final import TrialResult
from belljar.harness.results.summary import RunSummary
from belljar.harness.trials.outcome import TrialOutcome

_HEAD: Final = ("TASK", "AGENT", "OUTCOME", "SCORE", "PASSED", "SUBMITTED", "TIME", "DENIED")


def show_run(summary: RunSummary, directory: Path) -> None:
    """Print every trial, the mean with what it covers, and where the files are."""
    rows = [_row(result) for result in summary.results]
    rows += [(task, "-", TrialOutcome.LOST.value, "-", "-", "-", "-", "-") for task in summary.lost]
    print_table(_HEAD, rows)
    for result in summary.results:
        if result.detail:
            click.echo(f"\n{result.task}: {_lines(result.detail)}")
    if summary.lost:
        click.echo("\nlost: the run ended before these trials, or they still run: " + ", ".join(summary.lost))
    click.echo(f"\n{summary.coverage()}; files: {directory}")


def _row(result: TrialResult) -> tuple[str, ...]:
    return (
        result.task,
        printable(result.agent),
        result.outcome.value,
        "-" if result.score is None else f"{result.score:.1f}",
        "-" if result.best_pass_rate is None else f"{100 * result.best_pass_rate:.0f}%",
        str(result.total_rounds),
        written_seconds(result.runtime_seconds),
        str(result.denials),
    )


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.splitlines()))
