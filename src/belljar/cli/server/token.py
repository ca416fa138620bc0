"""`belljar token`: the secret that clients of the server need."""

from pathlib import Path

import click

from belljar.cli.server.state import state_option


@click.group()
def token() -> None:
    """Show or change the token of the server."""


@token.command()
@state_option
def show(state: Path) -> None:
    """Print the token."""
    from belljar.control.tokens import TokenFile  # noqa: PLC0415 - `--help` needs none of it

    click.echo(TokenFile(state).read())


@token.command()
@state_option
def rotate(state: Path) -> None:
    """Make a new token. It counts at once, and the old one no longer does; it is not printed."""
    from belljar.control.tokens import TokenFile  # noqa: PLC0415

    TokenFile(state).rotate()
