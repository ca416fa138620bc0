"""`belljar doctor`: what this machine lacks, and the command that mends it."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from belljar.backends import registry
from belljar.cli.options.backendname import BackendName
from belljar.cli.tables import print_table

if TYPE_CHECKING:
    from belljar.backends.findings import MachineFinding

EXIT_LACKING = 1


@click.command()
@click.option(
    "--backend",
    type=BackendName(),
    help="Look at this backend alone. Default: at all, and of the others than local none has to be there.",
)
def doctor(backend: str | None) -> None:
    """Look at what sandboxes need on this machine, and say how to get what is missing.

    Exit 0 if sandboxes work here, 1 if not.
    """
    found = list(_all() if backend is None else registry.find(backend).findings(os.environ))
    print_table(("STATE", "WHAT", "", "REMEDY"), map(_row, found))
    if any(not finding.holds and finding.needed for finding in found):
        sys.exit(EXIT_LACKING)


def _all() -> "Iterator[MachineFinding]":
    """Look at every backend. Nobody needs them all; the default one is there for everybody."""
    for name in registry.names():
        for finding in registry.find(name).findings(os.environ):
            yield finding if name == registry.DEFAULT else replace(finding, needed=False)


def _row(finding: "MachineFinding") -> tuple[str, str, str, str]:
    state = "ok" if finding.holds else "missing" if finding.needed else "note"
    return state, finding.what, finding.detail, "" if finding.holds else finding.remedy
