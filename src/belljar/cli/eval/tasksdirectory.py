"""`--tasks`: the directory of the tasks."""

import os
from pathlib import Path

import click

from belljar.harness.settings.variables import check_sforge_variables, find_directory
from belljar.harness.tasks.loading import DEFAULT_DIRECTORY

tasks_option = click.option(
    "--tasks",
    metavar="DIR",
    type=click.Path(),
    help="Directory of a benchmark, or of several. Default: BELLJAR_TASKS_DIR, or else tasks.",
)


def tasks_directory(flag: str | None) -> Path:
    """Return the directory of the tasks; report where it comes from, if that is a variable of SForge's."""
    check_sforge_variables(os.environ)
    found = find_directory(flag, "TASKS_DIR", DEFAULT_DIRECTORY, os.environ)
    if found.notice:
        click.echo(f"note: {found.notice}", err=True)
    return found.path
