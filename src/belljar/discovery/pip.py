"""pip's settings, and its default index: both are read, since a pip may be anybody's program.

The default is written in pip's own source. That of the system's pip counts, or else that of the pip which comes with
the Python that runs us: whoever could have changed that, could have changed us.
"""

import ast
import configparser
import io
import sysconfig
import zipfile
import zlib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from belljar.discovery.asking import Machine
from belljar.discovery.hosts import Named
from belljar.discovery.running import MAX_BYTES, NoAnswerError

_URL_OPTIONS: Final = ("index-url", "extra-index-url", "find-links")
_TRUE: Final = ("1", "true", "yes", "on", "y", "t")
_NO_FILES: Final = "/dev/null"
"""As PIP_CONFIG_FILE it says that no file counts."""

_SOURCE: Final = "pip/_internal/models/index.py"
_PACKAGES: Final = (
    "usr/lib/python3/dist-packages",
    "usr/lib/python3.*/site-packages",
    "usr/lib64/python3.*/site-packages",
    "usr/local/lib/python3.*/dist-packages",
    "usr/local/lib/python3.*/site-packages",
)
_WHEELS: Final = (
    "usr/share/python-wheels",
    "usr/lib/python3*/ensurepip/_bundled",
    "usr/local/lib/python3*/ensurepip/_bundled",
)

OUR_PACKAGES: Final = Path(sysconfig.get_path("purelib"))
OUR_LIBRARY: Final = Path(sysconfig.get_path("stdlib"))
"""Of the Python that runs us."""


class Index(NamedTuple):
    """pip's default index, and where its files are."""

    url: str
    files: str


def settings(machine: Machine) -> dict[tuple[str, str], list[str]]:
    """Return all options that are set, by section and name, as words."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in _files(machine):
        found |= _read_settings(machine.read_text(path), path)
    for option in (*_URL_OPTIONS, "no-index"):
        if words := machine.env.get(f"PIP_{option.upper().replace('-', '_')}", "").split():
            found[":env:", option] = words
    return {key: words for key, words in found.items() if words}


def configuration(options: dict[tuple[str, str], list[str]]) -> tuple[list[Named], bool]:
    """Return the URLs among settings, and whether the default index is in use. For which command does not count."""
    named = [
        Named(url, f"pip's {option}")
        for (_, option), words in options.items()
        if option in _URL_OPTIONS
        for url in words
    ]
    uses_default = not any(
        option == "index-url" or (option == "no-index" and words[0].lower() in _TRUE)
        for (_, option), words in options.items()
    )
    return named, uses_default


def is_installed(machine: Machine) -> bool:
    """Tell whether the system has a pip, or the Python that runs us."""
    return any(True for _ in _sources(machine))


def default_index(machine: Machine) -> Index | None:
    """Return the default index, as the first pip says that tells."""
    texts = chain(_sources(machine), _sources_in_wheels(machine))
    return next((index for index in map(_read_index, texts) if index is not None), None)


def _files(machine: Machine) -> list[Path]:
    """Return pip's files of settings, those that count more behind others; none of them is a project's."""
    if machine.env.get("PIP_CONFIG_FILE") == _NO_FILES:
        return []
    chosen = machine.named("PIP_CONFIG_FILE")
    return [
        *(directory / "pip/pip.conf" for directory in reversed(machine.system_settings())),
        machine.root / "etc/pip.conf",
        machine.home / ".pip/pip.conf",
        machine.directory("XDG_CONFIG_HOME", ".config") / "pip/pip.conf",
        *([chosen] if chosen else []),
    ]


def _read_settings(text: str, path: Path) -> dict[tuple[str, str], list[str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        raise NoAnswerError(f"{path} is not as pip's settings are") from None
    return {
        (section, name.replace("_", "-").removeprefix("--")): value.split()
        for section in parser.sections()
        for name, value in parser.items(section)
    }


def _sources(machine: Machine) -> Iterator[str]:
    """Return the sources of pips that are installed."""
    for pattern in _PACKAGES:
        for path in sorted(machine.root.glob(f"{pattern}/{_SOURCE}")):
            yield machine.read_text(path)
    ours = OUR_PACKAGES / _SOURCE
    if ours.is_file():
        yield ours.read_text(errors="replace")


def _sources_in_wheels(machine: Machine) -> Iterator[str]:
    """Return the sources of pips that would be installed in a new environment."""
    for pattern in _WHEELS:
        for path in sorted(machine.root.glob(f"{pattern}/pip-*.whl")):
            yield _source_in(machine.read(path) or b"")
    for path in sorted(OUR_LIBRARY.glob("ensurepip/_bundled/pip-*.whl")):
        yield _source_in(path.read_bytes())


def _source_in(wheel: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive, archive.open(_SOURCE) as file:
            return file.read(MAX_BYTES).decode(errors="replace")
    except (OSError, KeyError, zipfile.BadZipFile, zlib.error):
        return ""


def _read_index(source: str) -> Index | None:
    """Read ``PyPI = PackageIndex(URL, file_storage_domain=HOST)``."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for statement in statements:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id="PyPI")],
                value=ast.Call(
                    args=[ast.Constant(value=str(url))],
                    keywords=[ast.keyword(arg="file_storage_domain", value=ast.Constant(value=str(files)))],
                ),
            ):
                return Index(url, f"https://{files}")
    return None
