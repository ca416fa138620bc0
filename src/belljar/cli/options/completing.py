"""What shells complete: values of options, sandboxes of a server, and commands that are run.

A shell asks with each press of a key, so all of it is looked up when it is asked for. What cannot be found out is not
completed: there is no place for a message.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from belljar.errors import BelljarError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Completion: TypeAlias = "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]"


def complete_presets(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete the name of a preset."""
    from belljar.policy.presets import PRESETS  # noqa: PLC0415 - for shells that ask

    return _words(PRESETS, incomplete)


def complete_brokers(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete the name of a provider."""
    from belljar.policy.services import PROVIDERS  # noqa: PLC0415 - for shells that ask

    return _words(PROVIDERS, incomplete)


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Have the shell complete a file or directory."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - for shells that ask

    return [CompletionItem(incomplete, type="file")]


def complete_sandboxes(context: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete the id of a sandbox of the server that is meant."""
    from belljar.cli.server.connecting import connect  # noqa: PLC0415 - for shells that ask

    with suppress(BelljarError), connect(context.params.get("server")) as client:
        return _words((sandbox.id for sandbox in client.sandboxes()), incomplete)
    return []


def complete_command(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Complete a program of this machine, and files after it."""
    words = [word for word in context.params.get(str(parameter.name)) or () if word != "--"]
    if words or "/" in incomplete:
        return complete_files(context, parameter, incomplete)
    return _words(sorted(set(_programs(incomplete))), incomplete)


def _programs(beginning: str) -> Iterator[str]:
    for directory in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        with suppress(OSError):
            found = (path for path in Path(directory).iterdir() if path.name.startswith(beginning))
            yield from (path.name for path in found if os.access(path, os.X_OK) and not path.is_dir())


def _words(words: Iterable[str], incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - for shells that ask

    return [CompletionItem(word) for word in words if word.startswith(incomplete)]
