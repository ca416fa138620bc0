"""Ordinary users who may use an engine, and whom the machine does not know: they exist where the engine's mounts do."""

import os
from collections.abc import Sequence
from pathlib import Path

NAME = "operator"
NUMBER = 61000
_SUBORDINATE = f"{NAME}:1610612736:65536\n"

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
    """Return a script that has the user be known, and own subordinate numbers."""
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
    return "".join(mounts)


def give(path: Path) -> None:
    """Give files to the user."""
    for found in (path, *path.rglob("*")):
        os.chown(found, NUMBER, NUMBER)
