"""`--tasks` and `--results`: the directories of the tasks and of the runs."""

import os
from pathlib import Path
from typing import Final

import click

from belljar.harness.settings.variables import DirectorySetting, check_sforge_variables, find_directory
from belljar.harness.tasks.loading import DEFAULT_DIRECTORY

_DEFAULT_RESULTS: Final = Path("runs")

tasks_option = click.option(
    "--tasks",
    metavar="DIR",
    type=click.Path(),
    help="Directory of a benchmark, or of several. Default: BELLJAR_TASKS_DIR, or else tasks.",
)


def tasks_directory(flag: str | None) -> Path:
    """Return the directory of the tasks; report where it comes from, if that is a variable of SForge's."""
    check_sforge_variables(os.environ)
    return _found(find_directory(flag, "TASKS_DIR", DEFAULT_DIRECTORY, os.environ))


def results_directory(flag: str | None) -> Path:
    """Return the directory of the runs; report where it comes from, if that is a variable of SForge's."""
    return _found(find_directory(flag, "LOG_DIR", _DEFAULT_RESULTS, os.environ))


def _found(setting: DirectorySetting) -> Path:
    if setting.notice:
        click.echo(f"note: {setting.notice}", err=True)
    return setting.path
