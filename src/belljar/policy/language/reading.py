"""What reading a text results in, whichever syntax it is in: plain data, places, or the reason why not."""

import re
from typing import Any, Final, NamedTuple

MAX_DEPTH: Final = 16
TOO_DEEP: Final = "is nested too deeply to be a policy"
TOO_MANY_DIGITS: Final = "has a number of more than 18 digits; write the one that is meant"
EMPTY: Final = 'is empty; write at least "mode: block-all"'

_CAMEL_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ITEM = re.compile(r"(.+)\[([0-9]{1,9})\]", re.ASCII | re.DOTALL)


class UnreadableError(ValueError):
    """The text is not a document at all; the message says where and what to do."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class Lines:
    """Where things stand in the text, by path in snake_case: ``mode``, ``egress.allowed_domains[3]``."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.items: dict[str, list[int]] = {}

    def of(self, path: str) -> int | None:
        """Return the line of a path, or None where it is not known."""
        path = snake_case(path)
        if path in self.keys or not (item := _ITEM.fullmatch(path)):
            return self.keys.get(path)
        lines = self.items.get(item[1], [])
        return lines[int(item[2])] if int(item[2]) < len(lines) else None


NOWHERE: Final = Lines()
"""Where nothing stands in a text."""


class Reading(NamedTuple):
    """What was read: plain data, where its parts stand, and the keys that stand twice (path and line)."""

    data: Any
    lines: Lines = NOWHERE
    twice: tuple[tuple[str, int | None], ...] = ()


def snake_case(key: str) -> str:
    """Return the snake_case spelling of a key that may be in camelCase."""
    return _CAMEL_HUMP.sub("_", key).lower() if not key.islower() else key


def path_to(key: str, within: str) -> str:
    """Return the path of a key in the mapping at another path."""
    return f"{within}.{snake_case(key)}" if within else snake_case(key)
