"""uv's configuration: it has no command that prints it, so the environment and the files are read."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.reading import parse_toml, strings_of, table_of

_DEFAULT_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL")
_VARIABLES = (*_DEFAULT_VARIABLES, "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
_SETTINGS = ("index-url", "extra-index-url", "find-links")
_INDEX_NAME = re.compile(r"\A[\w.-]+=")


def configuration(machine: Machine) -> tuple[list[Named], bool]:
    """Return the URLs, and whether the default index is in use. Files in a project do not count."""
    files = [parse_toml(data, str(path)) for path in _files(machine) if (data := machine.read(path))]
    named = [
        *_from_environment(machine),
        *(found for settings in files for found in _from_settings(settings)),
    ]
    has_own_default = any(machine.env.get(variable) for variable in _DEFAULT_VARIABLES)
    return named, not (has_own_default or any(_replaces_default(settings) for settings in files))


def _files(machine: Machine) -> list[Path]:
    if chosen := machine.named("UV_CONFIG_FILE"):
        return [chosen]
    directories = (machine.directory("XDG_CONFIG_HOME", ".config"), *machine.system_settings(), machine.root / "etc")
    return [directory / "uv/uv.toml" for directory in directories]


def _from_environment(machine: Machine) -> Iterator[Named]:
    for variable in _VARIABLES:
        for entry in machine.env.get(variable, "").replace(",", " ").split():
            yield Named(_INDEX_NAME.sub("", entry), f"uv's {variable}")


def _from_settings(settings: dict[str, Any]) -> Iterator[Named]:
    for table in (settings, table_of(settings.get("pip"))):
        for key in _SETTINGS:
            yield from (Named(url, f"uv's {key}") for url in strings_of(table.get(key)))
    for index in _indexes(settings):
        why = f"uv's index {index.get('name', '')}".rstrip()
        yield from (Named(url, why) for url in strings_of(index.get("url")))


def _replaces_default(settings: dict[str, Any]) -> bool:
    """``[pip]`` settings do not count: they are for ``uv pip`` alone."""
    if "index-url" in settings or settings.get("no-index") is True:
        return True
    return any(index.get("default") is True for index in _indexes(settings))


def _indexes(settings: dict[str, Any]) -> list[dict[str, Any]]:
    indexes = settings.get("index")
    return [table_of(index) for index in indexes] if isinstance(indexes, list) else []
