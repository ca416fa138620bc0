"""JSON as plain data, with the keys that stand twice in an object, which the standard reader passes over."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from belljar.policy.reading import Reading, UnreadableError, path_to


class _Repeating(dict[str, Any]):
    """An object in which keys stand twice; the first value of each is kept."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(reversed(pairs))
        self.twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def read_json(text: str) -> Reading:
    """Return the data of a JSON text. Raises UnreadableError or json.JSONDecodeError."""
    data = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    return Reading(data, twice=tuple((path, None) for path in _repeated_keys(data, "")))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    return mapping if len(mapping) == len(pairs) else _Repeating(pairs)


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableError(f"has the value {name}, which is not JSON; write a number or text")


def _repeated_keys(value: Any, path: str) -> Iterator[str]:
    """Yield the path of each key that stands twice."""
    if isinstance(value, _Repeating):
        yield from (path_to(key, path) for key in value.twice)
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _repeated_keys(inner, path_to(key, path))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _repeated_keys(inner, f"{path}[{index}]")
