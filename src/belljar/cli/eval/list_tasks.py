"""`belljar eval list`: the tasks of a directory."""

import json

import click

from belljar.cli.eval.directories import tasks_directory, tasks_option
from belljar.cli.tables import print_table
from belljar.errors import printable
from belljar.harness.tasks.loading import load_directory


@click.command("list")
@tasks_option
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
def list_(tasks: str | None, as_json: bool) -> None:
    """List the tasks of a directory.

    Each is checked in full. If there is anything wrong with one, nothing is listed, and every problem is named.
    """
    found = load_directory(tasks_directory(tasks))
    rows = [
        {
            "id": task.id,
            "name": task.name,
            "base_image": task.base_image.key,
            "parser": task.judge.parser.value,
            "internet": task.internet,
            "path": str(task.path),
        }
        for task in found.tasks
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        print_table(HEAD, [[_cell(row[key]) for key in COLUMNS] for row in rows])
    for left_out in found.unsupported:
        click.echo(f"note: left out: {left_out}", err=True)


HEAD = ("ID", "NAME", "BASE IMAGE", "PARSER", "INTERNET")
COLUMNS = ("id", "name", "base_image", "parser", "internet")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))
