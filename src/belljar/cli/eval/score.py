"""`belljar eval score`: one archive, graded."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import click

from belljar.cli.eval.directories import results_directory, tasks_directory, tasks_option
from belljar.errors import BelljarError, extra, printable, reason
from belljar.harness.judge.report import EvalReport
from belljar.harness.leftovers import default_eval_state
from belljar.harness.settings.resolve import resolve
from belljar.harness.tasks.loading import find_task

_STDIN = "-"


@click.command("score")
@click.option("--task", "name", required=True, metavar="ID|FILE", help="The task.")
@click.option("--archive", required=True, metavar="FILE", help="A .tar or .tar.gz; - for standard input.")
@tasks_option
@click.option("--backend", metavar="[local|docker|podman]", help="What makes the sandboxes. Default: local.")
@click.option("--setup-timeout", metavar="TIME", help="How long the task's setup may take. Default: 10m.")
@click.option("--judge-cpu-limit", metavar="N", help="Processors of the judge sandbox.")
@click.option("--judge-mem-limit", metavar="SIZE", help="Memory of the judge sandbox.")
@click.option("--results", metavar="DIR", type=click.Path(), help="Where the report is kept. Default: runs.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=default_eval_state,
    help="Directory for what grading needs while it lasts. Default: ~/.local/state/belljar-eval.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def score(  # noqa: PLR0913, PLR0917 - click passes one argument for each option
    name: str, archive: str, tasks: str | None, results: str | None, state: Path, as_json: bool, **flags: Any
) -> None:
    """Grade an archive as the judge grades submissions, in a sealed sandbox.

    The exit code is 0 if it was graded, whatever its score is.
    """
    task = find_task(name, tasks_directory(tasks))
    settings = resolve(flags, os.environ, task).settings
    stage = replace(task.judge, cpus=settings.judge_cpu_limit, memory_bytes=settings.judge_mem_limit)
    task = replace(task, judge=stage)
    with extra("eval"):
        from belljar.harness.judging import JudgingPlan, score_archive  # noqa: PLC0415 - `--help` needs none of it

    plan = JudgingPlan(
        tasks={task.id: task},
        backend=settings.backend,
        setup_timeout=settings.setup_timeout,
        state=state,
        results=results_directory(results).absolute(),
    )
    with _opened(archive) as source:
        report, directory = asyncio.run(score_archive(plan, task, source))
    if as_json:
        click.echo(json.dumps(report.to_data(), indent=2))
    else:
        _show(report, directory)


@contextmanager
def _opened(archive: str) -> Iterator[BinaryIO]:
    if archive == _STDIN:
        yield sys.stdin.buffer
        return
    try:
        source = Path(archive).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise BelljarError(f"{printable(archive)} cannot be read ({reason(error)}); name an archive") from None
    with source:
        yield source


def _show(report: EvalReport, directory: Path) -> None:
    rows = [
        ("valid", "yes" if report.valid else "no"),
        ("score", "-" if report.score is None else f"{report.score:g}"),
        ("score of 100", "-" if report.score_0_100 is None else f"{report.score_0_100:.1f}"),
        ("pass rate", f"{100 * report.pass_rate:.1f}%"),
        ("passed", f"{report.passed} of {report.total_tests}"),
        ("failed", f"{report.failed}, with {report.errors} errors"),
        ("time", f"{report.runtime_seconds:.1f} s" + (", too long" if report.timed_out else "")),
        *([("summary", line) for line in report.summary.splitlines()]),
        *([("left out", each) for each in report.left_out]),
    ]
    for label, value in rows:
        click.echo(f"{label + ':':<14}{printable(value)}")
    click.echo(f"\nfiles: {directory}")
