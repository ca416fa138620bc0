"""`belljar eval init`: a benchmark to begin with."""

import shlex
from pathlib import Path

import click

from belljar.errors import printable


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path())
def init(directory: str) -> None:
    """Write a benchmark with one task and its solution into DIR, which must be new or empty.

    The task works as it is: change it into your own.
    """
    from belljar.harness.tasks.skeleton import TASK_ID, write_skeleton  # noqa: PLC0415 - `--help` needs none of it

    for path in write_skeleton(Path(directory)):
        click.echo(printable(str(path)))
    place = printable(shlex.quote(directory))
    click.echo(f"next: belljar eval run --tasks {place} --task {TASK_ID} --agent oracle", err=True)
