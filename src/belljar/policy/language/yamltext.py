"""YAML as plain data, built from the parser's events: quicker than its usual loaders, and stricter.

YAML's surprises are off: ``no`` and ``010`` are text; anchors, aliases, tags and several documents are errors. The
line of every key and list item is kept.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from belljar.policy.language.reading import EMPTY, MAX_DEPTH, TOO_DEEP, Lines, Reading, UnreadableError, path_to

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})", re.ASCII)
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}


def read_yaml(text: str) -> Reading:
    """Return the data of a YAML text, and where its parts stand. Raises UnreadableError."""
    try:
        return _Reader(text).document()
    except yaml.MarkedYAMLError as error:
        raise _explained(error) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise UnreadableError(f"is not valid YAML: {' '.join(str(error).split())}") from None


def _explained(error: yaml.MarkedYAMLError) -> UnreadableError:
    line = error.problem_mark.line + 1 if error.problem_mark else None
    if error.context == "while scanning an alias":
        return UnreadableError('has a "*" that begins an entry without quotes; write "*.example.org", in quotes', line)
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    return UnreadableError(f"is not valid YAML: {problem}", line)


class _Reader:
    """Builds plain data from events."""

    def __init__(self, text: str) -> None:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=loader)
        self._lines = Lines()
        self._twice: list[tuple[str, int | None]] = []

    def document(self) -> Reading:
        next(self._events)  # the start of the stream
        if not isinstance(next(self._events), yaml.DocumentStartEvent):
            raise UnreadableError(EMPTY)
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
            raise UnreadableError(TOO_DEEP, line)
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
            below = path_to(key, path)
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
