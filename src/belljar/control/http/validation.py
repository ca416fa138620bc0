"""Requests held against the schemas that the API's description publishes: one truth for readers and for the server.

This is the part of JSON Schema that the API uses, with messages for people, and every problem at once.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from belljar.runtime.problems import FieldProblem

Schema = Mapping[str, Any]

_MAX_SHOWN: Final = 100


def check(schema: Schema, value: Any, field: str = "") -> Iterator[FieldProblem]:
    """Yield what is wrong with a value."""
    if not _is_of_type(schema, value):
        yield FieldProblem(field, f"{_shown(value)} is not {_type(schema)}; write one")
        return
    if "enum" in schema and value not in schema["enum"]:
        yield FieldProblem(field, f"{_shown(value)} is not known; write {' or '.join(map(_shown, schema['enum']))}")
    if isinstance(value, str):
        yield from _check_text(schema, value, field)
    elif isinstance(value, dict):
        yield from _check_object(schema, value, field)
    elif isinstance(value, list):
        yield from _check_array(schema, value, field)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _check_number(schema, value, field)


def _is_of_type(schema: Schema, value: Any) -> bool:
    types = schema.get("type")
    if types is None:
        return True
    return any(_is_of(kind, value) for kind in ([types] if isinstance(types, str) else types))


def _is_of(kind: str, value: Any) -> bool:
    match kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def _check_text(schema: Schema, value: str, field: str) -> Iterator[FieldProblem]:
    if len(value) < schema.get("minLength", 0):
        yield FieldProblem(field, "is empty; write something, or leave it out")
    elif len(value) > schema.get("maxLength", len(value)):
        yield FieldProblem(field, f"is longer than {schema['maxLength']} characters; write less")
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        yield FieldProblem(field, f"{_shown(value)} does not match {schema['pattern']}; {schema['description']}")


def _check_number(schema: Schema, value: float, field: str) -> Iterator[FieldProblem]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        yield FieldProblem(field, f"{value} is out of bounds; write a number from {low} to {high}")


def _check_array(schema: Schema, value: list[Any], field: str) -> Iterator[FieldProblem]:
    if len(value) < schema.get("minItems", 0):
        yield FieldProblem(field, f"has {len(value)} items; write at least {schema['minItems']}")
    if len(value) > schema.get("maxItems", len(value)):
        yield FieldProblem(field, f"has {len(value)} items; write at most {schema['maxItems']}")
    for index, item in enumerate(value):
        yield from check(schema.get("items", {}), item, f"{field}[{index}]")


def _check_object(schema: Schema, value: dict[str, Any], field: str) -> Iterator[FieldProblem]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield FieldProblem(_below(field, name), "is missing; add it")
    if len(value) > schema.get("maxProperties", len(value)):
        yield FieldProblem(field, f"has {len(value)} entries; write at most {schema['maxProperties']}")
    for name, inner in value.items():
        place = _below(field, name)
        if name in properties:
            yield from check(properties[name], inner, place)
        elif others is False:
            yield FieldProblem(place, f"is not a known field; {_advice(name, properties)}")
        else:
            yield from check(schema.get("propertyNames", {}), name, place)
            yield from check(others if isinstance(others, Mapping) else {}, inner, place)


def _below(field: str, name: str) -> str:
    shown = name if name.isidentifier() and name.isascii() else _shown(name)
    return f"{field}.{shown}" if field else shown


def _advice(name: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known) or 'none'}"


def _type(schema: Schema) -> str:
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    return " or ".join("null" if kind == "null" else f"{'an' if kind[0] in 'aio' else 'a'} {kind}" for kind in types)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
