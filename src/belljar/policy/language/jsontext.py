"""JSON as plain data, with the keys that stand twice in an object, which the standard reader passes over."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from belljar.policy.language.reading import Reading, UnreadableError, path_to


class _Repeating(dict[str, Any]):
    """An object in which keys stand twice; the first value of each is kept."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(reversed(pairs))
        self.twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]


def read_json(text: str) -> Reading:
    """Return the data of a JSON text. Raises UnreadableError or json.JSONDecodeError."""
    repeating: list[_Repeating] = []

    def mapping_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) == len(pairs):
            return mapping
        repeating.append(_Repeating(pairs))
        return repeating[-1]

    data = json.loads(text, object_pairs_hook=mapping_of, parse_constant=_refuse_constant)
    paths = _repeated_keys(data, "") if repeating else ()  # looking for them takes longer than all the rest
    return Reading(data, twice=tuple((path, None) for path in paths))


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
