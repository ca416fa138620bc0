"""go's module proxy and checksum database: by variables, its user's settings, or the defaults that come with it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.reading import parse_lines

_SETTINGS: Final = ("GOPROXY", "GOSUMDB")
_OLD_DEFAULT: Final = re.compile(r"""envOr\("(GOPROXY|GOSUMDB)", "([^"]*)"\)""")
"""How the source of go tells its defaults, up to version 1.20."""


def ask(machine: Machine) -> list[Named]:
    """Return the proxies and the checksum database. go itself is not run."""
    go = machine.require("go").parent.parent
    settings = _defaults(machine, go) | _of_user(machine)
    settings |= {name: value for name in _SETTINGS if (value := machine.env.get(name))}
    # The words "direct" and "off" stand among the proxies; they name no host.
    proxies = re.split("[,|]", settings.get("GOPROXY", ""))
    return [*(Named(url, "go's GOPROXY") for url in proxies), *_database(settings.get("GOSUMDB", ""))]


def _defaults(machine: Machine, go: Path) -> dict[str, str]:
    written = parse_lines(machine.read_text(go / "go.env"))
    source = machine.read_text(go / "src/cmd/go/internal/cfg/cfg.go")
    return dict(_OLD_DEFAULT.findall(source)) | written


def _of_user(machine: Machine) -> dict[str, str]:
    if machine.env.get("GOENV") == "off":
        return {}
    path = machine.named("GOENV") or machine.directory("XDG_CONFIG_HOME", ".config") / "go/env"
    return {name: value for name, value in parse_lines(machine.read_text(path)).items() if value}


def _database(text: str) -> Iterator[Named]:
    """Read ``name``, ``name+key`` or ``name+key url``; a name is its own URL."""
    match text.split():
        case [] | ["off"]:
            return
        case [name]:
            yield Named("https://" + name.partition("+")[0], "go's GOSUMDB")
        case [_, url, *_]:
            yield Named(url, "go's GOSUMDB")
