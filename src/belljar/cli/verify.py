"""`belljar verify`: the isolation self-test."""

import sys
from typing import TYPE_CHECKING, TextIO

import click

from belljar.backends.registry import DEFAULT
from belljar.cli.options.backendname import BackendName
from belljar.cli.tables import print_table

if TYPE_CHECKING:
    from belljar.verify.report import Report

EXIT_BROKEN = 1


@click.command()
@click.option("--backend", type=BackendName(), default=DEFAULT, help="What makes the sandbox. Default: local.")
@click.option("--json", "json_file", metavar="FILE", type=click.File("w", lazy=False), help="Write a JSON document.")
@click.option("--junit", "junit_file", metavar="FILE", type=click.File("w", lazy=False), help="Write JUnit XML.")
@click.option("--only", metavar="ID", multiple=True, help="Try this probe, or this way out by its number. Repeatable.")
def verify(backend: str, json_file: TextIO | None, junit_file: TextIO | None, only: tuple[str, ...]) -> None:
    """Prove that a sandbox on this machine is sealed.

    A real sandbox is made, every known way out of it is tried from inside, and a witness outside sees what arrives. It
    needs no internet, and nothing reaches this machine's network. Exit 0 if everything holds, 1 if not, 125 on error.
    """
    from belljar.verify.verifying import verify as run  # noqa: PLC0415 - `--help` needs none of it

    report = run(backend, only=only)
    if json_file is not None:
        json_file.write(report.as_json())
    if junit_file is not None:
        junit_file.write(report.as_junit())
    _show(report)
    if not report.all_hold:
        sys.exit(EXIT_BROKEN)


def _show(report: "Report") -> None:
    print_table(
        ("WAY OUT", "VERDICT", "TRIED", "EVIDENCE"),
        ((row.id, row.verdict.value, row.tried, row.evidence) for row in report.results),
    )
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.summary().items() if count)
    click.echo(f"\n{counts}; {report.seconds:.1f} s")
