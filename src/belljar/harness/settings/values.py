"""Values of settings: read from text, as variables have them, or as the command line has read them before."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from belljar.amounts import AmountError, parse_memory
from belljar.backends import registry
from belljar.harness.mappings import MAX_CPUS, MAX_SECONDS, is_number, quote, variable_problem
from belljar.policy.language.entries import did_you_mean

_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_TIME = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)([smhd])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_SUBMISSIONS: Final = 1_000_000
_OTHER_BACKENDS: Final = {"k8s": "Kubernetes is not supported yet", "e2b": "E2B is not supported"}


class SettingValueError(ValueError):
    """A value that cannot be used; the message says why and what to write. It quotes no secret."""


def read_seconds(value: object) -> float:
    """Read a time above 0: seconds, or a number with a unit."""
    return _number(_in_seconds(value), above=0, most=MAX_SECONDS, example="3600, 90m or 2h")


def read_interval(value: object) -> float:
    """Read a time from 0: seconds, or a number with a unit."""
    return _number(_in_seconds(value), above=None, most=MAX_SECONDS, example="300 or 5m")


def read_cpus(value: object) -> float:
    """Read a number of processors."""
    return _number(value, above=0, most=MAX_CPUS, example="4")


def read_count(value: object) -> int:
    """Read a whole number above 0."""
    number = _number(value, above=0, most=_MAX_SUBMISSIONS, example="20")
    if number != int(number):
        raise SettingValueError(f"is {quote(value)}; write a whole number, such as 20")
    return int(number)


def read_memory(value: object) -> int:
    """Read an amount of memory; a number is one of bytes."""
    try:
        return parse_memory(str(value))
    except AmountError as error:
        raise SettingValueError(str(error)) from None


def read_line(value: object) -> str:
    """Read a line of text."""
    text = str(value)
    if not text.strip() or not text.isprintable():
        raise SettingValueError(f"is {quote(text)}; write a line of text")
    return text


def read_command(value: object) -> str:
    """Read a shell command."""
    text = str(value)
    if not text.strip() or "\0" in text:
        raise SettingValueError(f"is {quote(text)}; write a shell command")
    return text


def read_backend(value: object) -> str:
    """Read the name of a backend."""
    name = str(value)
    if name in registry.BUILT_IN or name in (names := registry.names()):
        return name
    because = _OTHER_BACKENDS.get(name, f"{quote(name)} is not a backend{did_you_mean(name, names)}")
    raise SettingValueError(f"{because}; write one of: {', '.join(names)}")


def read_url(value: object) -> str:
    """Read the URL of a server."""
    text = str(value)
    try:
        url = urlsplit(text)
        _ = url.port  # which raises, where it is none
    except ValueError:
        raise SettingValueError("is not a URL; write one such as http://127.0.0.1:8080") from None
    if "@" in url.netloc:
        raise SettingValueError("has a user name or a password, which would be kept with the results; leave it out")
    if url.scheme not in ("http", "https") or not url.hostname or not text.isprintable() or " " in text:
        raise SettingValueError(f"is {quote(text)}; write a URL such as http://127.0.0.1:8080")
    return text.rstrip("/")


def read_key(value: object) -> str:
    """Read the key of a model API."""
    text = str(value)
    if not text.isascii() or not text.isprintable() or " " in text:
        raise SettingValueError("has characters that no key has, such as spaces or line breaks; copy it again")
    return text


def read_variables(value: object) -> Mapping[str, str]:
    """Read `K=V,K=V`."""
    variables: dict[str, str] = {}
    for number, item in enumerate(str(value).split(","), 1):
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals or not name.isidentifier():
            raise SettingValueError(
                f"has no variable as item {number}; write NAME=VALUE,NAME=VALUE, without commas in values"
            )
        if name in variables:
            raise SettingValueError(f"sets {name} twice; keep one of them")
        if problem := variable_problem(name):
            raise SettingValueError(f"sets {name}, which {problem}")
        if "\0" in text:
            raise SettingValueError(f"sets {name} to a value with a NUL character; delete it")
        variables[name] = text
    return variables


Reader = Callable[[object], Any]


def _in_seconds(value: object) -> object:
    """Return a time with a unit in seconds; anything else as it is."""
    match = _TIME.fullmatch(str(value))
    return float(match[1]) * _UNITS[match[2]] if match else value


def _number(value: object, *, above: float | None, most: float, example: str) -> float:
    number = float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
    if not isinstance(number, int | float) or not is_number(number):
        raise SettingValueError(f"is {quote(value)}; write a number, such as {example}")
    if number > most or number < 0 or number == above:
        least = "from 0" if above is None else f"above {above:g}"
        raise SettingValueError(f"is {quote(value)}; write a number {least}, up to {most:.15g}")
    return number
