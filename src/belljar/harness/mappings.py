"""Mappings of a document, read key by key. What a reader returns counts only if the document has no problems."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeVar

from belljar.amounts import AmountError, parse_memory
from belljar.harness.documents import StrictDocument
from belljar.policy.language.entries import did_you_mean

Choice = TypeVar("Choice", bound=StrEnum)

MAX_CPUS: Final = 4096
MAX_SECONDS: Final = 30 * 86400
_MAX_SHOWN: Final = 80
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_RESERVED: Final = ("BELLJAR_", "SFORGE_")
_KINDS: Final = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a number"}
_TRUE_WORDS: Final = ("yes", "on", "true", "y", "1")


class MappingKeys(NamedTuple):
    """The keys that a mapping may have, and those that it must have."""

    known: tuple[str, ...]
    required: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()
    """Those that count as absent where they are null."""


class StrictMapping:
    """One mapping: its keys are known, and each is read by its type."""

    def __init__(self, document: StrictDocument, where: str, value: object, keys: MappingKeys) -> None:
        """Check the keys of a mapping."""
        known, required, nullable = keys
        self.document = document
        self.where = where
        self._values: dict[str, Any] = {}
        if not isinstance(value, dict):
            document.fail(where, f"is {kind_of(value)}; write a mapping with some of: {', '.join(known)}")
            return
        for key, below in value.items():
            if key not in known:
                hint = did_you_mean(key, known) or f"; known here: {', '.join(known)}"
                document.fail(self.at(quote_key(key)), f"is not a known key{hint}")
            elif below is not None:
                self._values[key] = below
            elif key not in nullable:
                document.fail(self.at(key), "has no value; write one or delete the key")
        for key in required:
            if key not in value:
                document.fail(where, f'has no "{key}"; add it')

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def at(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self.where}.{key}" if self.where else key

    def fail(self, key: str, message: str) -> None:
        """Note a problem of a value."""
        self.document.fail(self.at(key), message)

    def value(self, key: str) -> object:
        """Return a value as it is; None where there is none."""
        return self._values.get(key)

    def text(self, key: str, default: str = "") -> str:
        """Return any text."""
        value = self._values.get(key, default)
        if problem := text_problem(value):
            self.fail(key, problem)
            return default
        return str(value)

    def words(self, key: str, default: str = "") -> str:
        """Return text that is on one line and not blank."""
        value = self.text(key, default)
        if isinstance(self._values.get(key), str) and not (value.strip() and value.isprintable()):
            self.fail(key, f"is {quote(self._values[key])}; write a line of text")
        return value

    def name(self, key: str) -> str:
        """Return a text that can be part of the name of a directory or an image."""
        name = self.text(key)
        if isinstance(self._values.get(key), str) and (problem := name_problem(name)):
            self.fail(key, problem)
        return name

    def texts(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self._values.get(key)
        if value is None:
            return default
        if not isinstance(value, list):
            self.fail(key, f"is {kind_of(value)}; write a list of texts, such as [{quote(value)}]")
            return default
        for index, item in enumerate(value):
            if problem := text_problem(item):
                self.fail(f"{key}[{index}]", problem)
        return tuple(item for item in value if isinstance(item, str))

    def flag(self, key: str, *, default: bool) -> bool:
        """Return true or false."""
        value = self._values.get(key, default)
        if isinstance(value, bool):
            return value
        meant = "true" if str(value).lower() in _TRUE_WORDS else "false"
        self.fail(key, f"is {described(value)}; write {meant}, without quotes")
        return default

    def number(self, key: str, *, most: float) -> float | None:
        """Return a number above 0; None where there is none."""
        value = self._values.get(key)
        if value is None or (is_number(value) and 0 < value <= most):
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.fail(key, f"is {quote(value)}; write a number above 0, up to {most:.15g}")
        else:
            self.fail(key, f"is {described(value)}; write a number, such as 2, without quotes")
        return None

    def memory(self, key: str) -> int | None:
        """Return an amount of memory in bytes; None where there is none."""
        value = self._values.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.fail(key, f'is {described(value)}; write text with a unit, such as "8g"')
            return None
        try:
            return parse_memory(value)
        except AmountError as error:
            self.fail(key, str(error))
            return None

    def choice(self, key: str, default: Choice) -> Choice:
        """Return one of the words of an enumeration."""
        words = [str(word) for word in type(default)]
        value = self._values.get(key, default.value)
        if isinstance(value, str) and value in words:
            return type(default)(value)
        self.fail(key, f"is {quote(value)}, which is not known{did_you_mean(value, words)}; write {listed(words)}")
        return default


def is_number(value: object) -> bool:
    """Return whether a value is a finite number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def text_problem(value: object) -> str | None:
    """Return what is wrong with a value that is meant to be text."""
    if not isinstance(value, str):
        return f"is {described(value)}; write text, in quotes"
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        return "has a NUL character or half of a surrogate pair, which no text has; delete it"
    return None


def name_problem(name: str) -> str | None:
    """Return what is wrong with a name that becomes part of those of directories and images."""
    if _NAME.fullmatch(name):
        return None
    return (
        f"is {quote(name)}, and becomes the name of directories and images; "
        'write up to 128 letters, digits and "._-", no "." first'
    )


def variable_problem(name: str) -> str | None:
    """Return what is wrong with the name of a variable for agents."""
    if not _VARIABLE.fullmatch(name):
        return 'is not the name of a variable; write letters, digits and "_"'
    return "is a name that the harness sets itself; rename it" if name.startswith(_RESERVED) else None


def kind_of(value: object) -> str:
    """Return what a value is, in the words of an author."""
    return "empty" if value is None else _KINDS.get(type(value), "a number" if isinstance(value, float) else "no text")


def described(value: object) -> str:
    """Return a value, and what it is where that cannot be seen: `"no", which is text`."""
    return quote(value) if value is None or isinstance(value, bool) else f"{quote(value)}, which is {kind_of(value)}"


def quote(value: object) -> str:
    """Return a value in ASCII on one line, shortened."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def quote_key(key: object) -> str:
    """Return a key as it is, or quoted if it cannot be shown."""
    text = str(key)
    return text if text.isprintable() and 0 < len(text) <= _MAX_SHOWN else quote(text)


def listed(words: Sequence[str] | Mapping[str, object]) -> str:
    """Return words as a choice: `"a", "b" or "c"`."""
    *most, last = [f'"{word}"' for word in words]
    return f"{', '.join(most)} or {last}" if most else last
