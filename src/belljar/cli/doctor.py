"""`belljar doctor`: what this machine lacks, and the command that mends it."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from belljar.cli.tables import print_table
from belljar.errors import BelljarError

if TYPE_CHECKING:
    from belljar.backends.containers.places import Kind
    from belljar.backends.findings import Finding

EXIT_LACKING = 1


@click.command()
@click.option(
    "--backend",
    type=click.Choice(["local", "docker", "podman"]),
    help="Look at this backend alone. Default: at all, and of docker and podman neither has to be there.",
)
def doctor(backend: str | None) -> None:
    """Look at what sandboxes need on this machine, and say how to get what is missing.

    Exit 0 if sandboxes work here, 1 if not.
    """
    found = list(_all() if backend is None else _of(backend))
    print_table(("STATE", "WHAT", "", "REMEDY"), map(_row, found))
    if any(not finding.holds and finding.needed for finding in found):
        sys.exit(EXIT_LACKING)


def _all() -> "Iterator[Finding]":
    """Look at every backend. Nobody needs them all; the local one is there for everybody."""
    yield from _local()
    yield from (replace(finding, needed=False) for finding in (*_containers("docker"), *_containers("podman")))


def _of(backend: str) -> "Iterator[Finding]":
    if backend == "docker":
        return _containers("docker")
    return _containers("podman") if backend == "podman" else _local()


def _row(finding: "Finding") -> tuple[str, str, str, str]:
    state = "ok" if finding.holds else "missing" if finding.needed else "note"
    return state, finding.what, finding.detail, "" if finding.holds else finding.remedy


def _containers(kind: "Kind") -> "Iterator[Finding]":
    from belljar.backends.containers.requirements import findings  # noqa: PLC0415 - `--help` needs none of it
    from belljar.backends.containers.running import Runner  # noqa: PLC0415
    from belljar.backends.findings import Finding  # noqa: PLC0415

    def trial() -> str | None:
        return Runner(kind, os.environ).trial()

    yield from findings(kind, os.environ, trial)
    with suppress(BelljarError):  # what is wrong with the engine was said above
        if swept := Runner(kind, os.environ).sweep():
            yield Finding(f"{kind} leftovers", holds=True, detail=f"of killed runs, taken away: {swept} containers")


def _local() -> "Iterator[Finding]":
    from belljar.backends.local.requirements import findings  # noqa: PLC0415 - `--help` needs none of it

    return findings(_local_trial)


def _local_trial() -> str | None:
    """Make a sandbox; return why that did not work."""
    from belljar.backends.local.running import run  # noqa: PLC0415 - `--help` needs none of it
    from belljar.gateway.settings import DEFAULTS  # noqa: PLC0415
    from belljar.policy import Mode, Policy, compile_policy  # noqa: PLC0415
    from belljar.sandbox.ledger import Ledger  # noqa: PLC0415
    from belljar.sandbox.network import Network  # noqa: PLC0415
    from belljar.sandbox.spec import Spec  # noqa: PLC0415

    with TemporaryDirectory(dir="/var/tmp") as directory:
        spec = Spec(("true",), Path(directory), {"PATH": "/usr/bin:/bin"})
        try:
            code = run(spec, Network(compile_policy(Policy(Mode.BLOCK_ALL)), DEFAULTS, Ledger()), {}).code
        except (BelljarError, OSError) as error:
            return str(error)
    return None if code == 0 else f"its command ended with {code}"
