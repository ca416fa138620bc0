"""`belljar doctor`: what this machine lacks, and the command that mends it."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from belljar.backends.local.requirements import Finding, findings
from belljar.cli.tables import print_table
from belljar.errors import BelljarError

EXIT_LACKING = 1


@click.command()
def doctor() -> None:
    """Look at what sandboxes need on this machine, and say how to get what is missing.

    Exit 0 if sandboxes work here, 1 if not.
    """
    found = list(findings(_trial))
    print_table(("STATE", "WHAT", "", "REMEDY"), map(_row, found))
    if any(not finding.holds and finding.needed for finding in found):
        sys.exit(EXIT_LACKING)


def _row(finding: Finding) -> tuple[str, str, str, str]:
    state = "ok" if finding.holds else "missing" if finding.needed else "note"
    return state, finding.what, finding.detail, "" if finding.holds else finding.remedy


def _trial() -> str | None:
    """Make a sandbox; return why that did not work."""
    from belljar.backends.local.running import Network, run  # noqa: PLC0415 - not needed for `--help`
    from belljar.gateway.settings import DEFAULTS  # noqa: PLC0415
    from belljar.policy import Mode, Policy, compile_policy  # noqa: PLC0415
    from belljar.sandbox.ledger import Ledger  # noqa: PLC0415
    from belljar.sandbox.spec import Spec  # noqa: PLC0415

    with TemporaryDirectory(dir="/var/tmp") as directory:
        spec = Spec(("true",), Path(directory), {"PATH": "/usr/bin:/bin"})
        try:
            code = run(spec, Network(compile_policy(Policy(Mode.BLOCK_ALL)), DEFAULTS, Ledger()), {})
        except (BelljarError, OSError) as error:
            return str(error)
    return None if code == 0 else f"its command ended with {code}"
