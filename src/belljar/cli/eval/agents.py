"""`belljar eval agents`: the agents that are built in."""

import click

from belljar.cli.tables import print_table


@click.command()
def agents() -> None:
    """List the agents that are built in.

    Any other program runs by --agent-command, or by a YAML file that --agent names.
    """
    from belljar.harness.agents.builtin import BUILTIN  # noqa: PLC0415 - `--help` needs none of it

    print_table(("AGENT", "WHAT IT DOES"), [(name, agent.summary) for name, agent in BUILTIN.items()])
