"""npm's registries, which yarn and pnpm read from ``.npmrc`` as well."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.reading import parse_lines
from belljar.discovery.running import NoAnswerError

_VARIABLE: Final = re.compile(r"\$\{([^}]+)\}")
_DEFINITIONS: Final = (
    "node_modules/@npmcli/config/lib/definitions/definitions.js",
    "../@npmcli/config/lib/definitions/definitions.js",  # as Debian has it
    "lib/utils/config/definitions.js",
    "lib/config/defaults.js",
)
"""Where in npm its defaults are written, in newer and older versions."""

_DEFAULT: Final = re.compile(r"""['"]?\bregistry['"]?\s*[:,]\s*(?:\{\s*default:\s*)?['"](https?://[^'"]+)['"]""")


def ask(machine: Machine) -> list[Named]:
    """Return the registry, and the registries of single scopes. npm itself is not run."""
    npm = _package(machine.require("npm"))
    files = [_settings(machine, path) for path in _files(machine, npm)]
    chosen = [*_from_environment(machine), *(found["registry"] for found in files if found.get("registry"))]
    scopes = {key: url for found in reversed(files) for key, url in found.items() if key.endswith(":registry")}
    return [
        Named(chosen[0] if chosen else _default(machine, npm), "npm's registry"),
        *(Named(url, f"npm's registry for {key.removesuffix(':registry')}") for key, url in scopes.items()),
    ]


def _package(program: Path) -> Path:
    """Return the directory that npm is in. The program in it is what others lead to."""
    if program.parts[-3:] != ("npm", "bin", "npm-cli.js"):
        raise NoAnswerError(f"{program} is not npm, but a program that looks for it")
    return program.parent.parent


def _files(machine: Machine, npm: Path) -> list[Path]:
    """Return npm's files of settings, those that count more first; none of them is a project's."""
    named = {name.lower(): name for name in machine.env}
    user, everybody = (machine.named(named.get(f"npm_config_{which}config", "")) for which in ("user", "global"))
    return [
        user or machine.home / ".npmrc",
        *([everybody] if everybody else [npm.parent.parent.parent / "etc/npmrc", machine.root / "etc/npmrc"]),
        npm / "npmrc",
    ]


def _settings(machine: Machine, path: Path) -> dict[str, str]:
    found = parse_lines(machine.read_text(path))
    return {
        name: _VARIABLE.sub(lambda variable: machine.env.get(variable[1], ""), value.strip("\"'"))
        for name, value in found.items()
    }


def _from_environment(machine: Machine) -> Iterator[str]:
    yield from (value for name, value in machine.env.items() if name.lower() == "npm_config_registry" and value)


def _default(machine: Machine, npm: Path) -> str:
    for path in _DEFINITIONS:
        if found := _DEFAULT.search(machine.read_text(Path(os.path.normpath(npm / path)))):
            return found[1]
    raise NoAnswerError(f"{npm} does not tell which registry npm uses by default")
