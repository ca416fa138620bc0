"""Ordinary users who may use an engine, and whom the machine does not know: they exist where the engine's mounts do."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

NAME = "operator"
NUMBER = 61000
_SUBORDINATE = f"{NAME}:1610612736:65536\n"
_CHECKOUT = Path(__file__).parents[2]

# What is mounted here is not seen by the machine, but what the machine mounts is seen here.
OWN_MOUNTS = """
mount --make-rslave /
mount --make-rshared /
"""


def become(groups: Sequence[int] = ()) -> list[str]:
    """Return what to put before a command to run it as the user, with no groups but these and no capabilities."""
    others = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    return ["setpriv", f"--reuid={NUMBER}", f"--regid={NUMBER}", others, "--inh-caps=-all"]


def introduce(directory: Path, home: Path) -> str:
    """Return a script that has the user be known, own subordinate numbers, and be able to run this very Python."""
    lines = {
        "passwd": f"{NAME}:x:{NUMBER}:{NUMBER}::{home}:/bin/sh\n",
        "group": f"{NAME}:x:{NUMBER}:\n",
        "subuid": _SUBORDINATE,
        "subgid": _SUBORDINATE,
    }
    mounts = []
    for name, line in lines.items():
        known, copy = Path("/etc", name), directory / name
        copy.write_text((known.read_text() if known.exists() else "") + line)
        mounts.append(f"[ -e {known} ] || touch {known}; mount --bind {copy} {known}\n")
    return "".join(mounts) + _reveal(directory, [Path(sys.base_prefix), _CHECKOUT])


def give(path: Path) -> None:
    """Give files to the user."""
    for found in (path, *path.rglob("*")):
        os.chown(found, NUMBER, NUMBER)


def _reveal(directory: Path, places: list[Path]) -> str:
    """Return a script that has everybody get to places which are below a closed directory, such as root's home."""
    script = []
    closed = {place: _first_closed(place) for place in places}
    for door in {door for door in closed.values() if door is not None}:
        opened = directory / "open" / door.relative_to("/")
        for place in (place for place in places if closed[place] == door):
            shown = opened / place.relative_to(door)
            script.append(f"mkdir -p {shown}; mount --bind {place} {shown}\n")
        script.append(f"mount --rbind {opened} {door}\n")
    return "".join(script)


def _first_closed(place: Path) -> Path | None:
    ways = [*reversed(place.parents), place]
    return next((way for way in ways if not way.stat().st_mode & 0o001), None)
