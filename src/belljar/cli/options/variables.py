"""`--env`: the variables that a command is given."""

import os
from collections.abc import Iterable

from belljar.errors import BelljarError


def read_variables(items: Iterable[str]) -> dict[str, str]:
    """Return the variables that `NAME`, passed on, and `NAME=VALUE` stand for. Raises BelljarError."""
    return dict(map(_read, items))


def _read(item: str) -> tuple[str, str]:
    name, given, value = item.partition("=")
    if not name.isprintable() or any(map(str.isspace, name)):
        raise BelljarError(f"--env: {name!r} is not the name of a variable; write NAME=VALUE, without spaces in NAME")
    if not name or (not given and name not in os.environ):
        raise BelljarError(f'--env: there is no variable "{name}" to pass on; write NAME=VALUE to set one')
    return name, value if given else os.environ[name]
