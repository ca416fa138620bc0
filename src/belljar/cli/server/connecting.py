"""Commands that talk to a server: how they find it, and the sandboxes in it."""

import difflib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from belljar.errors import printable

if TYPE_CHECKING:
    from belljar.client import Client, Sandbox


def server_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the server."""
    return click.option(
        "--server",
        envvar="BELLJAR_SERVER",
        metavar="URL|DIR",
        help="http://HOST:PORT, or the directory of one on this machine. Default: your own.",
    )(command)


def connect(server: str | None) -> "AbstractContextManager[Client]":
    """Return a client of the server that is meant."""
    from belljar.client import Client  # noqa: PLC0415 - `--help` needs none of it

    return Client(server)


def find_sandbox(client: "Client", name: str) -> "Sandbox":
    """Return a sandbox; one that is not there is told with those that may have been meant. Raises ClientError."""
    from belljar.client import NotFoundError  # noqa: PLC0415

    try:
        return client.sandbox(name)
    except NotFoundError:
        names = [sandbox.id for sandbox in client.sandboxes()]
        raise NotFoundError(f'there is no sandbox "{printable(name)}"; {_advice(name, names)}') from None


def _advice(name: str, names: list[str]) -> str:
    close = [known for known in names if name and known.startswith(name)][:3] or difflib.get_close_matches(name, names)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "`belljar ps` lists those that there are" if names else "there are none at all"
