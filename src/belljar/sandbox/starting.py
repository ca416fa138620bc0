"""The script that becomes a command, inside: it looks for the program first, and says in our words what is wrong.

A shell is what every sandbox has. It sees what the command will see, which nobody outside can be sure of; so it is
there that a program is found or not. What a user can do about it is known outside, and handed to the script.
"""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from belljar.sandbox.files.homes import homes_of_user

START: Final = r"""
_belljar_refuse() {
    printf 'belljar: %s\n' "$2${_belljar_hint:+
$_belljar_hint}" >&2
    exit "$1"
}
_belljar_look() {
    case $1 in
    */*)
        [ -e "$1" ] || _belljar_refuse 127 "$1: there is no such file inside"
        [ ! -d "$1" ] || { _belljar_hint=; _belljar_refuse 126 "$1: that is a directory, and no program"; }
        [ -x "$1" ] || { _belljar_hint=; _belljar_refuse 126 "$1: not executable; if it is a program: chmod +x $1"; }
        return ;;
    esac
    _belljar_found=
    IFS=:
    set -f
    for _belljar_place in ${PATH-/usr/local/bin:/usr/bin:/bin}; do
        [ -f "${_belljar_place:-.}/$1" ] || continue
        [ ! -x "${_belljar_place:-.}/$1" ] || return 0
        _belljar_found=${_belljar_place:-.}/$1
    done
    [ -z "$_belljar_found" ] || { _belljar_hint=; _belljar_refuse 126 "$_belljar_found: not executable"; }
    _belljar_refuse 127 "$1: command not found"
}
_belljar_look "$1"
unset IFS
set +f
trap 'echo "belljar: $1 cannot be started; what a script'"'"'s first line names has to be there inside, too" >&2' EXIT
exec "$@"
"""
"""Becomes the command that its arguments are. 127 means that there is no such program, 126 that it cannot be run."""

_WORDS_OF_SHELLS: Final = frozenset({".", "alias", "cd", "exec", "export", "set", "source", "ulimit", "umask", "unset"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")

_KEPT_TOGETHER: Final = frozenset({".cache", ".config", ".local"})
"""Directories in a home that belong to many programs."""


def script(command: Sequence[str], hint: str) -> bytes:
    """Return a script that becomes a command, however many words it has."""
    words = " ".join(map(shlex.quote, command))
    return os.fsencode(f"_belljar_hint={shlex.quote(hint)}\nset -- {words}\n{START}")


def hint_for(program: str, environment: Mapping[str, str]) -> str:
    """Return what a user of this machine can do if a program is not found inside."""
    found = _find(program, environment.get("PATH", os.defpath))
    if found is None and program in _WORDS_OF_SHELLS:
        return f"It is a word of the shell's, which has to be started for it: sh -c '{program} ...'"
    if found is None and _ASSIGNMENT.match(program):
        return f"Variables are set by an option, before --: --env {shlex.quote(program)}"
    if found is None:
        return "" if "/" in program else "Nothing of that name is on your PATH; install it, or name it by its path."
    shown = [f"--ro-bind {shlex.quote(str(place))}" for place in _to_show(found)]
    return f"It is at {found} on this machine, but not shown inside. This shows it, read-only: {' '.join(shown)}"


def _find(program: str, search_path: str) -> Path | None:
    candidates = [program] if "/" in program else [f"{place or '.'}/{program}" for place in search_path.split(":")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):  # noqa: PTH112 - several for every start
            return Path(os.path.abspath(candidate))  # noqa: PTH100 - links are followed by whoever runs it
    return None


def _to_show(found: Path) -> list[Path]:
    """Return what has to be shown for a program to be found where it is on the PATH, and to work."""
    real = found.resolve()
    places = [_installation(real)]
    if found != real and not found.is_relative_to(places[0]):
        places.insert(0, found.parent if _is_fit(found.parent) else found)
    return places


def _installation(program: Path) -> Path:
    """Return the directory that a program comes with, if it may be shown: never a home, nor what holds one."""
    if program.parent.name == "bin" and _is_fit(program.parent.parent):
        return program.parent.parent
    return program.parent if _is_fit(program.parent) else program


def _is_fit(directory: Path) -> bool:
    homes = list(homes_of_user(os.environ))
    holds_home = any(home.is_relative_to(directory) for home in homes)
    return not holds_home and not (directory.parent in homes and directory.name in _KEPT_TOGETHER)
