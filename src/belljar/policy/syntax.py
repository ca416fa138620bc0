"""Text to plain data: YAML, JSON and TOML read the same way, strictly.

A policy that is read differently from how it was meant is worse than one that is refused. So: a key that stands
twice is an error in every syntax; YAML's surprises are off (``no`` is text, ``010`` is text, anchors, tags and
several documents are errors); numbers are decimal integers. The line of every key and list item of a YAML text is
kept, so that a decision can be traced to the line that made it.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NoReturn

import yaml

MAX_DEPTH: Final = 16

_CAMEL_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_ITEM = re.compile(r"(.+)\[([0-9]{1,9})\]", re.ASCII | re.DOTALL)
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}


class Syntax(StrEnum):
    """The ways to write a document."""

    YAML = "yaml"
    JSON = "json"
    TOML = "toml"


class UnreadableError(ValueError):
    """The text is not a document at all; the message says where and what to do."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Lines:
    """Where things stand in the text, by path in snake_case: ``mode``, ``egress.allowed_domains[3]``."""

    keys: dict[str, int] = field(default_factory=dict)
    items: dict[str, list[int]] = field(default_factory=dict)

    def of(self, path: str) -> int | None:
        """Return the line of a path, or None where it is not known."""
        path = snake_case(path)
        if path in self.keys or not (item := _ITEM.fullmatch(path)):
            return self.keys.get(path)
        lines = self.items.get(item[1], [])
        return lines[int(item[2])] if int(item[2]) < len(lines) else None


def snake_case(key: str) -> str:
    """Return the snake_case spelling of a key that may be in camelCase."""
    return _CAMEL_HUMP.sub("_", key).lower() if not key.islower() else key


def guess_syntax(text: str, file_name: str = "") -> Syntax:
    """Tell a text's syntax by its file's ending, or where that says nothing by its content."""
    ending = file_name.lower().rpartition(".")[2]
    if ending in ("yaml", "yml"):
        return Syntax.YAML
    if ending in ("json", "toml"):
        return Syntax(ending)
    if text.lstrip().startswith("{"):
        return Syntax.JSON
    try:
        return Syntax.TOML if tomllib.loads(text) else Syntax.YAML
    except (ValueError, RecursionError):
        return Syntax.YAML


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: plain data, where its parts stand, and the keys that stand twice (path and line)."""

    data: Any
    lines: Lines = field(default_factory=Lines)
    twice: tuple[tuple[str, int | None], ...] = ()


def read_text(text: str, syntax: Syntax) -> Reading:
    """Return the plain data that a text stands for, and where its parts stand.

    Raises UnreadableError.
    """
    text = text.removeprefix("\ufeff")
    try:
        if syntax is Syntax.YAML:
            return _YamlReader(text).document()
        if syntax is Syntax.JSON:
            return _within_bounds(_read_json(text))
        return _within_bounds(Reading(tomllib.loads(text)))
    except json.JSONDecodeError as error:
        raise UnreadableError(f"is not valid JSON: {error.msg}", error.lineno) from None
    except tomllib.TOMLDecodeError as error:
        raise UnreadableError(f"is not valid TOML: {error}") from None
    except yaml.MarkedYAMLError as error:
        raise _explain_yaml_error(error) from None
    except yaml.YAMLError as error:
        raise UnreadableError(f"is not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UnreadableError("is nested too deeply to be a policy") from None
    except ValueError as error:
        if isinstance(error, UnreadableError):
            raise
        raise UnreadableError(f"is not valid {syntax.upper()}: {error}") from None


def _within_bounds(reading: Reading) -> Reading:
    """Hold JSON and TOML to the bounds of the YAML reader; beyond them Python fails to print a value."""
    level = [reading.data]
    for _ in range(MAX_DEPTH + 1):
        if any(isinstance(value, int) and abs(value) >= 10**18 for value in level):
            raise UnreadableError("has a number of more than 18 digits")
        level = [below for value in level for below in _below(value)]
    if level:
        raise UnreadableError("is nested too deeply to be a policy")
    return reading


def _below(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _read_json(text: str) -> Reading:
    twice: list[tuple[str, int | None]] = []

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in pairs:
            if key in mapping:
                twice.append((key, None))
            mapping.setdefault(key, value)
        return mapping

    return Reading(json.loads(text, object_pairs_hook=collect, parse_constant=_refuse_constant), twice=tuple(twice))


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableError(f"has the value {name}, which is not JSON; write a number or text")


def _explain_yaml_error(error: yaml.MarkedYAMLError) -> UnreadableError:
    line = error.problem_mark.line + 1 if error.problem_mark else None
    if error.context == "while scanning an alias":
        return UnreadableError('has a "*" that begins an entry without quotes; write "*.example.org", in quotes', line)
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    return UnreadableError(f"is not valid YAML: {problem}", line)


class _YamlReader:
    """Builds plain data from YAML's events, which is quicker and stricter than its usual loaders."""

    def __init__(self, text: str) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
        self._lines = Lines()
        self._twice: list[tuple[str, int | None]] = []

    def document(self) -> Reading:
        next(self._events)  # the start of the stream
        if not isinstance(next(self._events), yaml.DocumentStartEvent):
            raise UnreadableError('is empty; write at least "mode: block-all"')
        value = self._value(next(self._events), "", 0)
        next(self._events)  # the end of the document
        after = next(self._events)
        if isinstance(after, yaml.DocumentStartEvent):
            raise UnreadableError('holds several documents ("---"); keep one', _line(after))
        return Reading(value, self._lines, tuple(self._twice))

    def _value(self, event: yaml.Event, path: str, depth: int) -> Any:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            raise UnreadableError(
                f'has the alias "*{event.anchor}"; aliases are not read here: write the value out, '
                'or put a pattern such as "*.example.org" in quotes',
                line,
            )
        _refuse_anchor_or_tag(event)
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if depth == MAX_DEPTH:
            raise UnreadableError("is nested too deeply to be a policy", line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth + 1)
        return self._mapping(path, depth + 1)

    def _sequence(self, path: str, depth: int) -> list[Any]:
        lines = self._lines.items[path] = []
        values: list[Any] = []
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            lines.append(_line(event))
            values.append(self._value(event, f"{path}[{len(values)}]", depth))
        return values

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            line = _line(event)
            _refuse_anchor_or_tag(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise UnreadableError("has a key that is not plain text; keys are single words", line)
            key = event.value
            below = f"{path}.{snake_case(key)}" if path else snake_case(key)
            value = self._value(next(self._events), below, depth)
            if key in mapping:
                self._twice.append((below, line))
            else:
                self._lines.keys[below] = line
                mapping[key] = value
        return mapping


def _refuse_anchor_or_tag(event: yaml.Event) -> None:
    if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
        raise UnreadableError(
            "has an anchor (&) or a tag (!), which are not read here: write plain values", _line(event)
        )


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _scalar(event: yaml.ScalarEvent) -> Any:
    text = event.value
    if event.style:  # quoted
        return text
    if text in _WORDS:
        return _WORDS[text]
    return int(text) if _INTEGER.fullmatch(text) else text
