"""`belljar help`: the same as `--help`, where people look for it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    try:
        found = _find(context, context.params.get(str(parameter.name)) or ())
    except click.UsageError:
        return []
    return found.command.shell_complete(found, incomplete)


@click.command("help")
@click.argument("words", metavar="[COMMAND]...", nargs=-1, shell_complete=_complete)
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> None:
    """Print the help of a command, such as `belljar help policy check`."""
    click.echo(_find(context, words).get_help())


def _find(context: click.Context, words: Iterable[str]) -> click.Context:
    found = context.find_root()
    for word in words:
        if not isinstance(found.command, click.Group):
            raise click.UsageError(f"{found.command_path} has no command {word!r}")
        name, command, _ = found.command.resolve_command(found, [word])
        if command is not None:
            found = click.Context(command, parent=found, info_name=name)
    return found
