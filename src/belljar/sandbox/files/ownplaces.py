"""What Belljar itself is made of: an agent that can write there is outside as soon as Belljar runs again.

That is whatever the next `belljar` runs or imports: the program itself, its Python, every directory that modules are
looked for in (an editable installation's sources, the user's own packages), found or not. Where it lies in a directory
that a sandbox is to write to, it is read-only inside, like other places that the host runs code from. Where that cannot
be, the directory is refused: because the place is not there yet, or has the directory in it, or is reached through a
link in it, which could be replaced.
"""

import os
import site
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import belljar
from belljar.errors import BelljarError
from belljar.linux.files.trusted import SYSTEM, links_on

_IMPORTED_FROM: Final = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE")
"""Variables that say where Python imports from, into whatever program."""


class OwnPlaceError(BelljarError):
    """A directory that a sandbox must not write to. The text says what is in it, and what to do."""


def kept_in(directory: Path, environment: Mapping[str, str], allowed: Iterable[Path] = ()) -> list[Path]:
    """Return what is read-only inside, of a directory that a sandbox is to write to. Raises OwnPlaceError.

    What is in `allowed` may be written to all the same.
    """
    _check_system(directory)
    _check_caches(directory, caches(environment).resolve())
    exempt = [directory / path for path in allowed]
    places = _places(environment)
    real = {place: place.resolve() for place in places}
    kept = {path for path in real.values() if path.is_relative_to(directory) and path.exists()}
    kept = {path for path in kept if not any(map(path.is_relative_to, exempt))}

    def can_be_made(path: Path) -> bool:
        return path.is_relative_to(directory) and not any(map(path.is_relative_to, (*kept, *exempt)))

    for place, what in places.items():
        if directory.is_relative_to(real[place]) or can_be_made(real[place]):
            raise OwnPlaceError(
                f"{directory} cannot be written to from a sandbox: {what} leads to {real[place]}, and what Python "
                f"imports from there runs outside, as part of Belljar itself;\n{_remedy(what)}"
            )
        for link in filter(can_be_made, links_on(place)):
            raise OwnPlaceError(
                f"{directory} cannot be written to from a sandbox: {what} leads to {real[place]} through the link "
                f"{link}, which could be replaced there, and what is found behind it runs outside;\n"
                f"start Belljar by the path that it leads to, or put what it leads to in its place"
            )
    return sorted(path for path in kept if kept.isdisjoint(path.parents))


def modules() -> set[Path]:
    """Return where the code is that this process runs and imports."""
    return {place.resolve() for place in _installation()}


def has_modules_in(directories: Iterable[Path]) -> bool:
    """Tell whether something that we import is in one of some directories, or has it in it."""
    places, directories = modules(), list(directories)
    return any(place.is_relative_to(where) or where.is_relative_to(place) for place in places for where in directories)


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


def _places(environment: Mapping[str, str]) -> dict[Path, str]:
    """Return what Belljar is made of, by the paths that lead there, and what says so."""
    named = _imported_from(environment)
    return named | {place: "Belljar's installation" for place in _installation() if place not in named}


def _installation() -> list[Path]:
    # Python looks into a user's own packages by itself, if it is not that of a virtual environment.
    users = (site.getusersitepackages(), f"{site.getuserbase()}/bin")
    started = getattr(sys.modules["__main__"], "__file__", None) or sys.executable
    places = (sys.prefix, sys.base_prefix, belljar.__path__[0], *sys.path, *users, sys.executable, started)
    return [Path(place).absolute() for place in places]


def _imported_from(environment: Mapping[str, str]) -> dict[Path, str]:
    return {
        Path(entry).absolute(): variable
        for variable in _IMPORTED_FROM
        if environment.get(variable)
        for entry in environment[variable].split(os.pathsep)
    }


def _remedy(what: str) -> str:
    if what in _IMPORTED_FROM:
        return f"start Belljar without it: env -u {what} belljar ..."
    return "name another directory, or install Belljar elsewhere"
