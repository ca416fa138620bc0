"""`belljar ps`: the sandboxes of a server."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from belljar.cli.options.amounts import written_seconds
from belljar.cli.server.connecting import connect, server_option
from belljar.cli.tables import print_table
from belljar.errors import BelljarError, printable

if TYPE_CHECKING:
    from belljar.client import SandboxState


@click.command()
@click.option("--label", multiple=True, metavar="NAME=VALUE", help="Only those that have it. Can be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print an array of objects.")
@server_option
def ps(label: tuple[str, ...], as_json: bool, server: str | None) -> None:
    """List the sandboxes of a server, the oldest first."""
    with connect(server) as client:
        states = [sandbox.state for sandbox in client.sandboxes(labels=dict(map(_pair, label)))]
    if as_json:
        click.echo(json.dumps([asdict(state) for state in states], default=datetime.isoformat, indent=2))
    else:
        print_table(HEAD, [row(state, datetime.now(UTC)) for state in states])


HEAD = ("SANDBOX", "STATUS", "BACKEND", "AGE", "MODE", "GENERATION", "LEFT", "LABELS")


def row(state: "SandboxState", now: datetime) -> tuple[str, ...]:
    """Return a sandbox as a line of the table."""
    ends = min((moment for moment in (state.expires_at, state.hard_expires_at) if moment), default=None)
    grants = f" +{state.grants}" if state.grants else ""
    is_closed = state.status in ("running", "paused") and not state.in_force
    return (
        state.id,
        state.status,
        state.backend,
        written_seconds((now - state.created_at).total_seconds()),
        state.mode,
        f"{state.generation}{grants}{' (closed)' if is_closed else ''}",
        written_seconds((ends - now).total_seconds()) if ends else "-",
        printable(" ".join(f"{name}={value}" for name, value in state.labels.items())) or "-",
    )


def _pair(label: str) -> tuple[str, str]:
    name, given, value = label.partition("=")
    if not given:
        raise BelljarError(f'--label: "{label}" has no value; write NAME=VALUE')
    return name, value
