"""`belljar network`: what a sandbox of a server may reach, while it runs."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from belljar.cli.options.amounts import Seconds
from belljar.cli.options.completing import complete_sandboxes
from belljar.cli.policyfiles import load_document
from belljar.cli.server.amending import Amendment, allowing, denying, is_address
from belljar.cli.server.connecting import connect, find_sandbox, server_option
from belljar.cli.tables import print_table
from belljar.errors import printable
from belljar.policy import Syntax, policy_from, render
from belljar.policy.language.reading import Reading
from belljar.policy.language.render import to_data

if TYPE_CHECKING:
    from belljar.client import Explanation, NetworkChange, NetworkPolicy, NetworkPreview, Sandbox

EXIT_NOT_SO = 1
_TRIES = 5

_sandbox = click.argument("sandbox", shell_complete=complete_sandboxes)
_entries = click.argument("destinations", nargs=-1, required=True, metavar="DESTINATION...")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def network() -> None:
    """Show and change what a sandbox may reach, while it runs."""


@network.command()
@click.option("--format", "syntax", type=click.Choice([s.value for s in Syntax]), default="yaml", help="Default: yaml.")
@server_option
@_sandbox
def get(sandbox: str, syntax: str, server: str | None) -> None:
    """Print the policy of a sandbox as it was set."""
    with connect(server) as client:
        policy = find_sandbox(client, sandbox).get_network_policy()
    click.echo(render(policy_from(Reading(policy.to_data())).policy, Syntax(syntax)), nl=False)


@network.command("set")
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would be decided otherwise.")
@_json
@server_option
@_sandbox
@click.argument("file", type=click.Path(allow_dash=True))
def set_(sandbox: str, file: str, dry_run: bool, as_json: bool, server: str | None) -> None:
    """Replace the policy of a sandbox.

    The policy in FILE is set in the place of the sandbox's own, and all grants end.
    """
    from belljar.client import NetworkPolicy  # noqa: PLC0415 - `--help` needs none of it

    policy = NetworkPolicy.of(to_data(load_document(file).policy))
    with connect(server) as client:
        found = find_sandbox(client, sandbox)
        if dry_run:
            _tell_preview(found.preview_network_policy(policy), as_json=as_json)
        else:
            _tell_change(found.update_network_policy(policy), as_json=as_json)


@network.command()
@click.option("--for", "seconds", type=Seconds(), metavar="TIME", help="Close it again after this time: 10m, say.")
@server_option
@_sandbox
@_entries
def allow(sandbox: str, destinations: tuple[str, ...], seconds: float | None, server: str | None) -> None:
    """Open destinations.

    They are domains as in a policy (x, *.x, .x, each with an optional port), addresses and ranges. Exit 0 if they are
    open now, 1 if something else in the policy keeps one of them closed.
    """
    with connect(server) as client:
        found = find_sandbox(client, sandbox)
        if seconds is None:
            _amend(found, destinations, allowing, "allow")
            return
        for destination in destinations:
            grant = found.grant(destination, seconds)
            click.echo(f"{printable(grant.allow)} is open until {grant.ends_at.astimezone():%H:%M:%S} ({grant.id})")


@network.command()
@server_option
@_sandbox
@_entries
def deny(sandbox: str, destinations: tuple[str, ...], server: str | None) -> None:
    """Close destinations, and end what is open to them. A domain is closed with everything below.

    Exit 0 if they are closed now, 1 if a rule that comes first keeps one of them open.
    """
    with connect(server) as client:
        _amend(find_sandbox(client, sandbox), destinations, denying, "deny")


def _amend(
    sandbox: "Sandbox",
    destinations: Sequence[str],
    amendment: "Callable[[NetworkPolicy, Iterable[str]], Amendment]",
    wanted: str,
) -> None:
    """Change the policy that is there, whoever else changes it at the same time, and tell what it says now."""
    from belljar.client import PolicyChangedError  # noqa: PLC0415 - `--help` needs none of it

    for tries_left in reversed(range(_TRIES)):
        policy = sandbox.get_network_policy()
        change = amendment(policy, dict.fromkeys(destinations))
        try:
            if change.add or change.remove:
                _tell_change(
                    sandbox.amend_network_policy(add=change.add, remove=change.remove, etag=policy.etag), as_json=False
                )
            break
        except PolicyChangedError:
            if not tries_left:
                raise
    explanations = [sandbox.explain(name) for entry in destinations if (name := _one_of(entry)) is not None]
    _tell_decisions(explanations)
    if any(explanation.action != wanted for explanation in explanations):
        sys.exit(EXIT_NOT_SO)


def _one_of(entry: str) -> str | None:
    """Return a destination that an entry covers and that can be asked about: itself, unless it covers many."""
    if is_address(entry):
        return f"[{entry}]:443" if ":" in entry else entry
    return None if "*" in entry or "/" in entry else entry.removeprefix(".")


def _tell_change(change: "NetworkChange", *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_plain(change) | {"in_force": change.in_force}, indent=2))
        return
    _warn(change)
    flows = "1 flow was" if change.flows_reset == 1 else f"{change.flows_reset} flows were"
    if change.in_force:
        click.echo(f"belljar: generation {change.generation} is in force; {flows} reset", err=True)
    else:
        click.echo(
            f"belljar: generation {change.generation} is set; the sandbox can reach nothing until it is in force",
            err=True,
        )


def _tell_preview(preview: "NetworkPreview", *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_plain(preview) | {"flips": [asdict(flip) for flip in preview.flips]}, indent=2))
        return
    _warn(preview)
    rows = [
        (flip.after, printable(flip.destination), "live" if flip.live else "recent", flip.reason, flip.sentence)
        for flip in preview.flips
    ]
    if rows:
        print_table(("THEN", "DESTINATION", "", "REASON", ""), rows)
    click.echo(f"belljar: nothing has changed; {preview.flows_reset} live flows would be reset", err=True)


def _tell_decisions(explanations: "Sequence[Explanation]") -> None:
    if explanations:
        rows = [(each.action, each.destination, each.reason, each.rule or "-", each.sentence) for each in explanations]
        print_table(("ACTION", "DESTINATION", "REASON", "RULE", ""), rows)


def _plain(told: "NetworkChange | NetworkPreview") -> dict[str, Any]:
    warnings = [asdict(warning) for warning in told.warnings]
    return {
        "generation": told.generation,
        "flows_reset": told.flows_reset,
        "warnings": warnings,
        "policy": told.policy.to_data(),
    }


def _warn(told: "NetworkChange | NetworkPreview") -> None:
    for warning in told.warnings:
        click.echo(f"belljar: warning: {warning}", err=True)
