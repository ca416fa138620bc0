"""What Belljar itself is made of: an agent that can write there is outside as soon as Belljar runs again.

Where it lies in a directory that a sandbox is to write to, it is read-only inside, like other places that the host runs
code from. Where that cannot be, since it is not there yet or has the directory in it, the directory is refused.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import belljar
from belljar.errors import BelljarError
from belljar.linux.trusted import SYSTEM

_IMPORTED_FROM: Final = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
"""Variables that say where Python imports from, into whatever program."""


class OwnPlaceError(BelljarError):
    """A directory that a sandbox must not write to. The text says what is in it, and what to do."""


def kept_in(directory: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return what is read-only inside, of a directory that a sandbox is to write to. Raises OwnPlaceError."""
    _check_system(directory)
    _check_caches(directory, caches(environment).resolve())
    places = _installation() | _imported_from(environment)
    for place, what in places.items():
        if directory.is_relative_to(place) or (place.is_relative_to(directory) and not place.exists()):
            raise OwnPlaceError(
                f"{directory} cannot be written to from a sandbox: {what} leads to {place}, and what Python imports "
                f"from there runs outside, as part of Belljar itself;\n{_remedy(what)}"
            )
    return [place for place in places if place.is_relative_to(directory)]


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what `kept_in` has to know of an environment, in a form that means the same in any directory."""
    found: dict[str, str] = {}
    for place, variable in _imported_from(environment).items():
        found[variable] = f"{found[variable]}{os.pathsep}{place}" if variable in found else str(place)
    return found | {"XDG_CACHE_HOME": str(caches(environment).absolute().parent)}


def caches(environment: Mapping[str, str]) -> Path:
    """Return where we keep what sandboxes of containers are made of."""
    if named := environment.get("XDG_CACHE_HOME"):
        return Path(named) / "belljar"
    above = "/var/cache" if os.geteuid() == 0 else f"{environment.get('HOME') or Path.home()}/.cache"
    return Path(above) / "belljar"


def _check_system(directory: Path) -> None:
    if any(map(directory.is_relative_to, SYSTEM)):
        raise OwnPlaceError(
            f"{directory} is part of the system, whose programs run outside, and cannot be written to from a sandbox;\n"
            "show it with --ro-bind, or name another directory"
        )


def _check_caches(directory: Path, ours: Path) -> None:
    if ours.is_relative_to(directory) or directory.is_relative_to(ours):
        raise OwnPlaceError(
            f"{directory} cannot be written to from a sandbox: what sandboxes are made of is in {ours};\n"
            "show a directory beside it"
        )


def _installation() -> dict[Path, str]:
    places = (sys.prefix, sys.base_prefix, belljar.__path__[0])
    return {Path(place).resolve(): "Belljar's installation" for place in places}


def _imported_from(environment: Mapping[str, str]) -> dict[Path, str]:
    return {
        Path(entry or ".").resolve(): variable
        for variable in _IMPORTED_FROM
        if environment.get(variable)
        for entry in environment[variable].split(os.pathsep)
    }


def _remedy(what: str) -> str:
    if what in _IMPORTED_FROM:
        return f"start Belljar without it: env -u {what} belljar ..."
    return "name another directory, or install Belljar elsewhere"
