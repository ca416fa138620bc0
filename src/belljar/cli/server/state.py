"""Where a server keeps its state, as the commands that start it or change its token find it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from belljar.statedir import default_state


def state_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option that names the state directory."""
    return click.option(
        "--state",
        type=click.Path(path_type=Path),
        default=default_state,
        metavar="DIR",
        help="The server's directory. Default: ~/.local/state/belljar, of root /var/lib/belljar.",
    )(command)
