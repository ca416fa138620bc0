"""A command group that imports a subcommand when it is called, not when it is listed.

`belljar --help` must answer at once, and most of what Belljar can do is not needed to say so.
"""

import gc
import importlib
from typing import NamedTuple

import click


class Subcommand(NamedTuple):
    """Where a subcommand lives, and what the list of commands says of it."""

    module: str
    attribute: str
    help: str


class LazyGroup(click.Group):
    """A group whose subcommands are named, described and imported separately."""

    subcommands: dict[str, Subcommand]

    def __init__(self, *args: object, subcommands: dict[str, Subcommand], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # click checks them
        self.subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's interface
        return list(self.subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self.subcommands:
            return None
        found = self.subcommands[cmd_name]
        gc.disable()  # what is imported stays; to look for garbage in it takes a tenth of the time
        command: click.Command = getattr(importlib.import_module(found.module), found.attribute)
        gc.freeze()
        gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.subcommands and not args[0].startswith("-"):
            from difflib import get_close_matches  # noqa: PLC0415 - for who has mistyped

            alike = get_close_matches(args[0], self.subcommands, n=1)
            ctx.fail(f"there is no command {args[0]!r}" + (f"; do you mean {alike[0]}?" if alike else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.subcommands[name].help) for name in self.list_commands(ctx)])
