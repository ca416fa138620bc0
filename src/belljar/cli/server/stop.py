"""`belljar stop`: the end of sandboxes."""

import click

from belljar.cli.options.completing import complete_sandboxes
from belljar.cli.server.connecting import connect, find_sandbox, server_option
from belljar.errors import BelljarError


@click.command()
@click.option("--all", "stop_all", is_flag=True, help="End every sandbox of the server.")
@server_option
@click.argument("sandboxes", nargs=-1, metavar="SANDBOX...", shell_complete=complete_sandboxes)
def stop(sandboxes: tuple[str, ...], stop_all: bool, server: str | None) -> None:
    """End sandboxes, with everything they hold."""
    if bool(sandboxes) == stop_all:
        raise BelljarError("name the sandboxes to end, or all of them with --all")
    with connect(server) as client:
        ending = list(client.sandboxes()) if stop_all else [find_sandbox(client, name) for name in sandboxes]
        for sandbox in ending:
            with sandbox:  # one that is gone by now is no error
                click.echo(sandbox.id)
