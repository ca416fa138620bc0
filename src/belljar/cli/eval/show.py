"""`belljar eval show`: the results of a run."""

import json
import sys
from pathlib import Path

import click

from belljar.cli.eval.directories import results_directory
from belljar.cli.eval.results import show_run
from belljar.harness.results.summary import read_run


@click.command()
@click.argument("run", metavar="RUN")
@click.option("--results", metavar="DIR", type=click.Path(), help="Where results are. Default: runs.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def show(run: str, results: str | None, as_json: bool) -> None:
    """Show the results of a run: its name, or its directory. The exit code is that of the run."""
    directory = Path(run) if "/" in run else results_directory(results) / run
    summary = read_run(directory)
    if as_json:
        click.echo(json.dumps(summary.to_data(), indent=2))
    else:
        show_run(summary, directory)
    sys.exit(summary.exit_code)
