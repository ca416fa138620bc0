"""TOML to plain data."""

import re
import tomllib
from typing import Final

from belljar.policy.language.reading import Reading, UnreadableError

_LINE: Final = re.compile(r"\(at line ([0-9]+), column [0-9]+\)", re.ASCII)


def read_toml(text: str) -> Reading:
    """Read a TOML document. Raises UnreadableError, and ValueError for a number of too many digits."""
    try:
        return Reading(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        raise UnreadableError(f"is not valid TOML: {error}", int(line[1]) if line else None) from None


def is_toml(text: str) -> bool:
    """Tell whether a text is a TOML document that says something."""
    try:
        return bool(tomllib.loads(text))
    except (ValueError, RecursionError):
        return False
