"""Where a server keeps its state, as the commands that start it or change its token find it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def state_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the state directory."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path),
        default=_default,
        metavar="DIR",
        help="The server's directory. Default: ~/.local/state/belljar, of root /var/lib/belljar.",
    )(command)


def _default() -> Path:
    from belljar.client.places import default_state  # noqa: PLC0415 - `--help` needs none of it

    return default_state()
