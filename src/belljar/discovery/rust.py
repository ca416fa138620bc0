"""cargo's registries: those it is configured with, and those it has used.

cargo has no command that prints the registry it uses by default. But its cache keeps, for every sparse
registry it has read, the host of the index (in a directory's name) and the index's ``config.json``, which
says where the crates themselves are.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named, locate
from belljar.discovery.reading import parse_json, parse_toml, strings_of, table_of

_CACHED_INDEX = re.compile(r"(?P<host>.+)-[0-9a-f]{16}")
_INDEX_VARIABLE = re.compile(r"CARGO_REGISTRIES_.+_INDEX")


def ask(machine: Machine) -> list[Named]:
    """Return the hosts of the indexes and of the crates."""
    machine.require("cargo")
    home = machine.directory("CARGO_HOME", ".cargo")
    config = _config(machine, home)
    named = [*_configured(config), *_from_environment(machine)]
    configured_hosts = {place[0] for url, _ in named if (place := locate(url))}
    for host, urls in _cached(machine, home):
        if host not in configured_hosts:
            if _replaces_a_source(config):
                continue  # it dates from before
            urls.append(f"https://{host}")
        named += [Named(url, f"cargo's cache of {host}") for url in urls]
    return named


def _config(machine: Machine, home: Path) -> dict[str, Any]:
    for path in (home / "config", home / "config.toml"):  # cargo's own order
        if data := machine.read(path):
            return parse_toml(data, str(path))
    return {}


def _configured(config: dict[str, Any]) -> Iterator[Named]:
    for name, source in _tables(config, "source"):
        urls = [] if "replace-with" in source else strings_of(source.get("registry"))
        yield from (Named(_plain(url), f"cargo's source {name}") for url in urls)
    for name, registry in _tables(config, "registries"):
        urls = strings_of(registry.get("index"))
        yield from (Named(_plain(url), f"cargo's registry {name}") for url in urls)


def _from_environment(machine: Machine) -> Iterator[Named]:
    for variable, value in machine.env.items():
        if _INDEX_VARIABLE.fullmatch(variable):
            yield Named(_plain(value), f"cargo's {variable}")


def _cached(machine: Machine, home: Path) -> Iterator[tuple[str, list[str]]]:
    """Return the host of each index in the cache, and the URLs in the index's ``config.json``.

    An index without that file is a git clone, as old versions of cargo made them, and not in use.
    """
    for path in (home / "registry" / "index").glob("*/config.json"):
        if (index := _CACHED_INDEX.fullmatch(path.parent.name)) and (data := machine.read(path)):
            config = parse_json(data, str(path))
            yield index["host"], [*strings_of(config.get("dl")), *strings_of(config.get("api"))]


def _replaces_a_source(config: dict[str, Any]) -> bool:
    return any("replace-with" in source for _, source in _tables(config, "source"))


def _tables(config: dict[str, Any], key: str) -> list[tuple[str, dict[str, Any]]]:
    return [(name, table_of(value)) for name, value in table_of(config.get(key)).items()]


def _plain(url: str) -> str:
    return url.removeprefix("sparse+").removeprefix("registry+")
