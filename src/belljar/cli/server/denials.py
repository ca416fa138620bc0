"""`belljar denials`: what sandboxes were not allowed to do."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING

import click

from belljar.cli.options.completing import complete_sandboxes
from belljar.cli.server.connecting import connect, find_sandbox, server_option
from belljar.cli.server.lines import denial_line

if TYPE_CHECKING:
    from belljar.client import Denial, Event


@click.command()
@click.option("--follow", is_flag=True, help="Go on with what is denied from now on.")
@click.option("--limit", default=20, type=click.IntRange(1, 1000), help="How many of the past. Default: 20.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@server_option
@click.argument("sandbox", required=False, shell_complete=complete_sandboxes)
def denials(sandbox: str | None, follow: bool, limit: int, as_json: bool, server: str | None) -> None:
    """Print what a sandbox was denied, or all of them, the newest last."""
    with connect(server) as client, ExitStack() as stack:
        chosen = [find_sandbox(client, sandbox)] if sandbox is not None else list(client.sandboxes())
        source = chosen[0] if sandbox is not None else client
        # Followed from before the past is asked for, so that nothing falls in between.
        events = stack.enter_context(source.events()) if follow else ()
        past = sorted((denial for each in chosen for denial in each.denials(limit)), key=lambda denial: denial.id)
        _print(past[-limit:], as_json=as_json)
        known = past[-1].id if past else 0
        _print((denial for denial in _denials(events) if denial.id > known), as_json=as_json)


def _denials(events: "Iterable[Event]") -> "Iterator[Denial]":
    from belljar.client import DENIALS, Denial  # noqa: PLC0415 - `--help` needs none of it

    return (Denial.of(event) for event in events if event.event in DENIALS)


def _print(found: "Iterable[Denial]", *, as_json: bool) -> None:
    for denial in found:
        click.echo(json.dumps(asdict(denial), default=datetime.isoformat) if as_json else denial_line(denial))
