"""Text to plain data: YAML, JSON and TOML read the same way, strictly.

A policy that is read differently from how it was meant is worse than one that is refused. So a key that stands twice
is an error in every syntax, numbers are decimal integers, and what is nested or long beyond reason is refused. Where
the text is YAML, the line of everything is kept, so that a decision can be traced to the line that made it.

A reader is imported when it is used: most policies are of one syntax, and many runs have none in a file.
"""

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

from belljar.policy.language.jsontext import read_json
from belljar.policy.language.reading import EMPTY, MAX_DEPTH, TOO_DEEP, TOO_MANY_DIGITS, Reading, UnreadableError

_BYTE_ORDER_MARK: Final = "\ufeff"


class Syntax(StrEnum):
    """The ways to write a document."""

    YAML = "yaml"
    JSON = "json"
    TOML = "toml"


def guess_syntax(text: str, file_name: str = "") -> Syntax:
    """Tell a text's syntax by its file's ending, or where that says nothing by its content."""
    ending = file_name.lower().rpartition(".")[2]
    if ending in ("yaml", "yml"):
        return Syntax.YAML
    if ending in ("json", "toml"):
        return Syntax(ending)
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if text.lstrip().startswith("{"):
        return Syntax.JSON
    from belljar.policy.language.tomltext import is_toml  # noqa: PLC0415 - see above

    return Syntax.TOML if is_toml(text) else Syntax.YAML


def read_text(text: str, syntax: Syntax) -> Reading:
    """Return the plain data that a text stands for, and where its parts stand.

    Raises UnreadableError.
    """
    text = text.removeprefix(_BYTE_ORDER_MARK)
    if not text.strip():
        raise UnreadableError(EMPTY)
    try:
        return _read(text, syntax)
    except UnreadableError:
        raise
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not valid JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise UnreadableError(TOO_DEEP) from None
    except ValueError:  # the one that is left: Python converts no more than 4300 digits
        raise UnreadableError(TOO_MANY_DIGITS) from None


def _read(text: str, syntax: Syntax) -> Reading:
    if syntax is Syntax.YAML:
        from belljar.policy.language.yamltext import read_yaml  # noqa: PLC0415 - see above

        return read_yaml(text)
    if syntax is Syntax.TOML:
        from belljar.policy.language.tomltext import read_toml  # noqa: PLC0415 - see above

        return _within_bounds(read_toml(text))
    return _within_bounds(read_json(text))


def _within_bounds(reading: Reading) -> Reading:
    """Hold JSON and TOML to the bounds of the YAML reader; beyond them Python fails to print a value."""
    level = [reading.data]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(value, int) and abs(value) >= 10**18 for value in level):
            raise UnreadableError(TOO_MANY_DIGITS)
        level = [below for value in level if isinstance(value, (dict, list)) for below in _below(value)]
    if level:
        raise UnreadableError(TOO_DEEP)
    return reading


def _below(value: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value
