"""`belljar eval check`: whether a task is fit to be evaluated."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from belljar.backends import registry
from belljar.cli.eval.directories import tasks_directory, tasks_option
from belljar.cli.eval.progress import PlainProgress
from belljar.cli.tables import print_table
from belljar.errors import extra, printable
from belljar.harness.documents import InvalidDocumentError
from belljar.harness.leftovers import default_eval_state
from belljar.harness.settings.resolve import resolve
from belljar.harness.tasks.loading import find_task

if TYPE_CHECKING:
    from belljar.harness.checkrows import CheckRow

EXIT_BROKEN = 1


@click.command("check")
@click.argument("task", metavar="TASK")
@tasks_option
@click.option("--backend", metavar="[local|docker|podman]", help="What makes the sandboxes. Default: local.")
@click.option(
    "--state",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=default_eval_state,
    help="Directory for what a check needs while it lives. Default: ~/.local/state/belljar-eval.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def check(task: str, tasks: str | None, backend: str | None, state: Path, as_json: bool) -> None:
    """Check that TASK, an ID or a JSON file, is fit to be evaluated.

    It is set up without a network, looked through for tests and solutions that an agent could read, and graded as it is
    found and as its reference solution leaves it.

    Exit code: 0 if nothing is broken, 1 if something is, 125 if the task could not be checked.
    """
    with extra("eval"):
        from belljar.harness.check import CheckPlan, check_task  # noqa: PLC0415 - `--help` needs none of it
        from belljar.harness.checkrows import (  # noqa: PLC0415
            CheckRow,
            CheckState,
            check_loading,
            unchecked_after,
        )

    try:
        found = find_task(task, tasks_directory(tasks))
    except InvalidDocumentError as error:
        rows = [CheckRow("loads", CheckState.BROKEN, str(error), "correct the file")]
    else:
        settings = resolve({"backend": backend, "eval_interval": "0"}, os.environ, found)
        for notice in settings.notices:
            click.echo(f"note: {notice}", err=True)
        rows = [check_loading(found, runs_images=registry.find(settings.settings.backend).runs_images)]
        if rows[0].state is not CheckState.BROKEN:
            plan = CheckPlan(task=found, settings=settings, state=state, on_change=PlainProgress(sys.stderr))
            rows += asyncio.run(check_task(plan))
    if len(rows) == 1:
        rows += unchecked_after("loads")
    if as_json:
        click.echo(json.dumps({"task": task, "checks": [row.to_data() for row in rows]}, indent=2))
    else:
        _print(rows)
    sys.exit(EXIT_BROKEN if any(row.state is CheckState.BROKEN for row in rows) else 0)


def _print(rows: "Sequence[CheckRow]") -> None:
    """Print a row for each check, and below it what else there is to its evidence, and the remedy."""
    lines = []
    for row in rows:
        first, *rest = map(printable, row.evidence.splitlines())
        lines.append((row.check, row.state.value, first))
        lines += [("", "", line) for line in rest]
        if row.remedy:
            lines.append(("", "", f"remedy: {printable(row.remedy)}"))
    print_table(("CHECK", "STATE", "EVIDENCE"), lines)
