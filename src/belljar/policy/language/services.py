"""Entries of `services`: each is checked word by word, and becomes a service.

A policy is shown, stored and sent; so it must not have a secret in it. What looks like one is refused.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from belljar.names import SpellingError, parse_authority, parse_port
from belljar.policy.addresses import AddressClass, classify
from belljar.policy.language.entries import EntryError, did_you_mean
from belljar.policy.language.reading import path_to, snake_case
from belljar.policy.reserved import HOST_NAMES, is_never_name, is_service_name
from belljar.policy.services import (
    PROVIDERS,
    Budget,
    Service,
    ServiceKind,
    is_this_machine,
    key_variable,
    service_from_data,
)

T = TypeVar("T")

SERVICE_KEYS: Final = (
    *(kind.value for kind in ServiceKind),
    *("at", "header", "paths", "server_tools", "budget", "shared_budget"),
)
BUDGET_KEYS: Final = Budget._fields
_OF_BROKERS: Final = ("header", "paths", "server_tools", "budget", "shared_budget")

_NAME: Final = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_GROUP: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{1,512}", re.ASCII)
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}", re.ASCII)
_PATH_RULE: Final = re.compile(r"(?:[A-Z]{1,16}|\*) /[A-Za-z0-9._~!$&'()+,;=:@/*-]{0,256}", re.ASCII)
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)(.*)", re.ASCII)
_URL_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*/?", re.ASCII)
_SECRETIVE: Final = ("auth", "key", "token", "secret", "cookie", "password", "credential")
_NOT_OURS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_FRACTION: Final = re.compile(r"[0-9]{1,15}\.[0-9]{1,4}", re.ASCII)
_MOST_ENTRIES: Final = 32
_MAX_STARS: Final = 4
_PATH_REMEDY: Final = (
    'write a method and a path, such as "POST /v1/messages"; * stands for a part of a segment, and ** for whole '
    "segments, at most once"
)
_LARGEST: Final = 10**15
_MAX_PATH: Final = 4095
_MAX_PART: Final = 255
_MAX_SHOWN: Final = 100


class Reader(Protocol):
    """Whoever reads the document around an entry."""

    def fail(self, where: str, message: str, path: str = "") -> None:
        """Note a problem."""

    def warn(self, where: str, message: str) -> None:
        """Note something odd."""

    def keys(self, where: str, value: object, known: tuple[str, ...]) -> dict[str, Any]:
        """Return a mapping with known keys."""


def read_services(reader: Reader, value: object) -> tuple[Service, ...]:
    """Read all of them; the reader notes what is wrong."""
    if not isinstance(value, dict):
        reader.fail("services", "is not a mapping; write names, and what each leads to, such as {anthropic: {}}")
        return ()
    found = []
    for name, entry in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "host":
            remedy = "write lower-case letters, digits and -, and not host"
            reader.fail(
                "services", f"{_shown(name)} is not the name of a service; {remedy}", path_to(str(name), "services")
            )
            continue
        data = _read_service(reader, f"services.{name}", name, {} if entry is None else entry)
        if data is not None:
            found.append(service_from_data(name, data))
    return tuple(found)


def _read_service(reader: Reader, where: str, name: str, entry: object) -> dict[str, Any] | None:
    """Return a checked entry; None if it cannot be one. The reader notes every problem of it."""
    keys = reader.keys(where, entry, SERVICE_KEYS)
    if not isinstance(entry, dict):
        return None
    is_sound = len(keys) == len(entry)
    targets = [kind.value for kind in ServiceKind if kind.value in keys]
    is_broker = not targets or ServiceKind.BROKER.value in targets
    if len(targets) > 1:
        reader.fail(where, f"leads to more than one thing: {' and '.join(targets)}; keep one of them")
        is_sound = False
    elif is_sound and not targets and name not in PROVIDERS:  # else an unknown key may be the one that says it
        known = ", ".join(PROVIDERS)
        alike = did_you_mean(name, PROVIDERS)
        reader.fail(
            where,
            f"does not say where it leads{alike}; write url, port, socket or address, or one of the names {known}",
        )
        is_sound = False
    data: dict[str, Any] = {}
    for key, value in keys.items():
        if key in _OF_BROKERS and not is_broker:
            reader.fail(f"{where}.{key}", "is for brokers; it goes with url, or the name of a provider")
            is_sound = False
            continue
        try:
            data[key] = _READERS[key](value)
        except EntryError as error:
            for problem in _problems(error):
                reader.fail(f"{where}.{key}", problem)
            is_sound = False
    if is_broker and targets and "header" not in data and name not in PROVIDERS:
        variable = key_variable(name)
        reader.warn(
            where,
            f'sends no key; write header: {{Authorization: "Bearer ${{{variable}}}"}} to send the one in {variable}, '
            "or header: {} if none is needed",
        )
    return data if is_sound else None


class _ManyProblemsError(EntryError):
    """A mapping or list with several entries that cannot be accepted."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _problems(error: EntryError) -> list[str]:
    return error.problems if isinstance(error, _ManyProblemsError) else [str(error)]


def _read_each(read: Callable[[T], object], entries: Iterable[T]) -> None:
    """Read every entry. Raises EntryError with the problems of all."""
    problems: list[str] = []
    for entry in entries:
        try:
            read(entry)
        except EntryError as error:
            problems += _problems(error)
    if problems:
        raise _ManyProblemsError(problems)


def _port(value: object) -> int:
    try:
        return parse_port(str(value) if isinstance(value, int) and not isinstance(value, bool) else "")
    except SpellingError:
        raise EntryError("is not a port; write a number from 1 to 65535") from None


def _socket(value: object) -> str:
    if not isinstance(value, str) or not value.startswith("/") or not value.isprintable() or "/../" in f"{value}/":
        raise EntryError("is not the path of a unix socket; write it from / on, without ..")
    parts = [part for part in value.split("/") if part not in {"", "."}]
    if len(value.encode()) > _MAX_PATH or any(len(part.encode()) > _MAX_PART for part in parts):
        raise EntryError(
            f"is longer than a path can be; write at most {_MAX_PATH} bytes, and {_MAX_PART} between two slashes"
        )
    if parts[:1] == ["proc"]:
        raise EntryError("is in /proc, where a path leads elsewhere for every process; write the socket's own path")
    return value


def _address(value: object) -> str:
    remedy = "write HOST:PORT, such as db.corp.example:5432 or 10.1.2.3:5432"
    if not isinstance(value, str):
        raise EntryError(f"is not text; {remedy}")
    try:
        host, port = parse_authority(value)
    except SpellingError as error:
        raise EntryError(f"{error}; {remedy}") from None
    if port is None:
        raise EntryError(f"has no port; {remedy}")
    if isinstance(host, str):
        if host in HOST_NAMES or is_never_name(host) or is_service_name(host):
            raise EntryError(f"{host} means this machine or a metadata service; for this machine, write port")
        return f"{host}:{port}"
    if classify(host) is AddressClass.NEVER:
        raise EntryError(f"{host} is loopback, link-local or reserved, and stays closed; for this machine, write port")
    return f"[{host}]:{port}" if host.version == 6 else f"{host}:{port}"


def _url(value: object) -> str:
    remedy = "write one such as https://llm.corp.example/v1"
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or " " in value:
        raise EntryError(f"is not a URL; {remedy}")
    if "@" in value:
        raise EntryError("has a user or a password in it, which no policy may have; write ${NAME} in header instead")
    if not (parts := _URL.fullmatch(value)):
        raise EntryError(f"is not a URL; {remedy}")
    scheme, path = parts[1].lower(), parts[3]
    try:
        host, port = parse_authority(parts[2])
    except SpellingError as error:
        raise EntryError(f"has a host that cannot be read ({error}); {remedy}") from None
    if scheme not in ("https", "http") or not _URL_PATH.fullmatch(path):
        raise EntryError(f"is not a plain https URL; {remedy}, without a query")
    if any(part in (".", "..") for part in path.split("/")):
        raise EntryError(f"has . or .. in its path; {remedy}")
    if scheme == "http" and not is_this_machine(host):
        raise EntryError("would send the key in the clear; write https, or http for this machine only")
    shown = f"[{host}]" if ":" in str(host) else str(host)
    return f"{scheme}://{shown}{f':{port}' if port else ''}{path.rstrip('/')}"


def _header(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > _MOST_ENTRIES:
        raise EntryError('is not a mapping; write {Authorization: "Bearer ${NAME}"}')
    found: dict[str, str] = {}

    def read(header: tuple[object, object]) -> None:
        name, text = header
        if not isinstance(name, str) or not _HEADER.fullmatch(name) or name.lower() in _NOT_OURS:
            raise EntryError(f"{_shown(name)} is not a header that can be set")
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise EntryError(f"{name} has a value that is not plain text on one line")
        if "$" in _REFERENCE.sub("", text):
            raise EntryError(f"{name} has a $ that names no secret; write ${{NAME}}")
        if any(word in name.lower() for word in _SECRETIVE) and not _REFERENCE.search(text):
            raise EntryError(f"{name} looks like a secret, which no policy may have in it; write ${{NAME}} instead")
        if name.lower() in found:
            raise EntryError(f"{name} stands twice; keep one of them")
        found[name.lower()] = text

    _read_each(read, value.items())
    return found


def _paths(value: object) -> list[str]:
    if not isinstance(value, list) or len(value) > _MOST_ENTRIES:
        raise EntryError(f"is not a list of at most {_MOST_ENTRIES}; {_PATH_REMEDY}")
    if not value:
        raise EntryError(f"is empty, and would let nothing through; leave it out, or {_PATH_REMEDY}")
    _read_each(_path, value)
    return value


def _path(rule: object) -> None:
    if not isinstance(rule, str) or not _PATH_RULE.fullmatch(rule) or not _is_pattern(rule.partition(" ")[2]):
        raise EntryError(f"{_shown(rule)} is no rule; {_PATH_REMEDY}")


def _is_pattern(path: str) -> bool:
    segments = path.split("/")
    stars = [segment for segment in segments if "**" in segment]
    return path.count("*") <= _MAX_STARS and "//" not in path and stars in ([], ["**"])


def _server_tools(value: object) -> str:
    if value not in ("allow", "refuse"):
        raise EntryError('is neither "allow" nor "refuse"; write one of them')
    return str(value)


def read_budget(value: object) -> Budget:
    """Read how much of a broker may be used. Raises EntryError."""
    return Budget(**_budget(value))


def _budget(value: object) -> dict[str, Any]:
    keys = _in_snake_case(value)
    known = ", ".join(BUDGET_KEYS)
    if not keys:
        raise EntryError(f"is not a budget; write a mapping with some of: {known}")
    found: dict[str, Any] = {}

    def read(bound: tuple[str, object]) -> None:
        key, amount = bound
        if key not in BUDGET_KEYS:
            alike = did_you_mean(key, BUDGET_KEYS)
            raise EntryError(f"{_shown(key)} is nothing that is counted{alike}; write some of: {known}")
        found[key] = _amount(key, amount)

    _read_each(read, keys.items())
    return found


def _in_snake_case(value: object) -> dict[str, object]:
    """Return a mapping whose keys may be in camelCase; an empty one for what is none, or has a key in both."""
    keys = {snake_case(str(key)): below for key, below in value.items()} if isinstance(value, dict) else {}
    return keys if isinstance(value, dict) and len(keys) == len(value) else {}


def _amount(key: str, value: object) -> float:
    """Read an amount; a fraction is text in YAML, which has more ways to write one than people know."""
    if key == "dollars" and isinstance(value, str) and _FRACTION.fullmatch(value):
        value = float(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST:
        if isinstance(value, int):
            return value
        if key == "dollars" and _FRACTION.fullmatch(repr(value)):  # as it will be written again
            return int(value) if value.is_integer() else value
    remedy = "number above 0, with at most 4 digits after the point" if key == "dollars" else "whole number above 0"
    raise EntryError(f"{key} is not an amount; write a {remedy}")


def _shared_budget(value: object) -> dict[str, Any]:
    keys = _in_snake_case(value)
    group = keys.pop("group", None)
    found: dict[str, Any] = {"group": group}

    def read_group(_: object) -> None:
        if group is None:
            raise EntryError("names no group; write {group: NAME} and amounts")
        if not isinstance(group, str) or not _GROUP.fullmatch(group):
            raise EntryError(
                "group is not a name; write letters, digits, ., _ and -, and begin with one of the first two"
            )

    def read_amounts(_: object) -> None:
        found.update(_budget(keys))

    _read_each(lambda read: read(value), (read_group, read_amounts))
    return found


def _shown(value: object) -> str:
    return ascii(value)[:_MAX_SHOWN]


_READERS: Final[Mapping[str, Callable[[object], Any]]] = {
    "port": _port,
    "socket": _socket,
    "address": _address,
    "url": _url,
    "at": _port,
    "header": _header,
    "paths": _paths,
    "server_tools": _server_tools,
    "budget": _budget,
    "shared_budget": _shared_budget,
}
