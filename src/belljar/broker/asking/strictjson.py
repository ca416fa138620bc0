"""JSON that nobody reads differently: what is judged here has to be what the provider will see.

Two readers may disagree about a key that is there twice, about numbers that JSON does not have and about bytes that are
no text. None of that is guessed at; it is refused.
"""

import json
import re
from typing import Any, Final, NoReturn

_MOST_DEPTH: Final = 100
_MOST_VALUES: Final = 500_000
"""How many a text may have: each takes far more room and time than its bytes."""

_MAX_DIGITS: Final = 64
_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)  # takes back nothing: linear, flat
_BUILDING: Final = (b"[", b"{", b",")


class NotJsonError(ValueError):
    """Not JSON, or not such that there is one way to read it. The text says why."""


def read(body: bytes) -> Any:
    """Return the data of a JSON text. Raises NotJsonError."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise NotJsonError("it is not UTF-8") from None
    if most_values(body) > _MOST_DEPTH:
        _check_size(text)
    try:
        return json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_fraction,
        )
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


def _integer(digits: str) -> int:
    """Return an integer of a bounded length: making one takes time by the square of its digits."""
    if len(digits) > _MAX_DIGITS:
        raise NotJsonError(f"it has a number of more than {_MAX_DIGITS} digits")
    return int(digits)


def _fraction(digits: str) -> float:
    if len(digits) > _MAX_DIGITS:
        raise NotJsonError(f"it has a number of more than {_MAX_DIGITS} digits")
    return float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"it has {name}, which is no JSON")


def most_values(body: bytes) -> int:
    """Return how many values a JSON text has at most, without reading it: texts in it count as if they were JSON."""
    return sum(map(body.count, _BUILDING))


def _check_size(text: str) -> None:
    depth = values = 0
    for token in _TOKEN.finditer(text):
        each = token[0]
        if each in "[{,":
            values += 1
            depth += each != ","
        elif each in "]}":
            depth -= 1
        if depth > _MOST_DEPTH:
            raise NotJsonError(f"it is nested more than {_MOST_DEPTH} deep")
        if values > _MOST_VALUES:
            raise NotJsonError(f"it has more than {_MOST_VALUES} values")
