"""JSON that nobody reads differently: what is judged here has to be what the provider will see.

Two readers may disagree about a key that is there twice, about numbers that JSON does not have and about bytes that are
no text. None of that is guessed at; it is refused.
"""

import json
import re
from typing import Any, Final, NoReturn

_MOST_DEPTH: Final = 100
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)  # takes back nothing: linear, flat


class NotJsonError(ValueError):
    """Not JSON, or not such that there is one way to read it. The text says why."""


def read(body: bytes) -> Any:
    """Return the data of a JSON text. Raises NotJsonError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJsonError("it is not UTF-8") from None
    if _is_deep(text):
        raise NotJsonError(f"it is nested more than {_MOST_DEPTH} deep")
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"it is not JSON: {error.msg} at character {error.pos}") from None
    except NotJsonError:
        raise
    except (ValueError, RecursionError):
        raise NotJsonError("it has a number that is too long, or too much depth") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJsonError("it has an object with the same key twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"it has {name}, which is no JSON")


def _is_deep(text: str) -> bool:
    if text.count("[") + text.count("{") <= _MOST_DEPTH:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        each = token[0]
        if each in "[{":
            depth += 1
            if depth > _MOST_DEPTH:
                return True
        elif each in "]}":
            depth -= 1
    return False
