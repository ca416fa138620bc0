"""`belljar logs`: what happened in a sandbox."""

import click

from belljar.cli.options.completing import complete_sandboxes
from belljar.cli.server.connecting import connect, find_sandbox, server_option
from belljar.cli.server.lines import event_json, event_line


@click.command()
@click.option("--follow", is_flag=True, help="Go on with what happens, until the sandbox is deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@server_option
@click.argument("sandbox", shell_complete=complete_sandboxes)
def logs(sandbox: str, follow: bool, as_json: bool, server: str | None) -> None:
    """Print what happened in a sandbox: connections, questions, denials, changes of its policy and of its state."""
    write = event_json if as_json else event_line
    with connect(server) as client, find_sandbox(client, sandbox).events(after=0, follow=follow) as events:
        for event in events:
            click.echo(write(event))
