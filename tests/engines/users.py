"""Ordinary users who may use an engine, and whom the machine does not know: they exist where the engine's mounts do."""

import os
from collections.abc import Sequence
from pathlib import Path

NAME = "belljar-tests"
NUMBER = 61000
_SUBORDINATE = f"{NAME}:1610612736:65536"

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
    """Return a script that mounts a layer over /etc in which the user exists and owns subordinate numbers.

    A mount over a single file would disappear as soon as the machine replaces that file by rename(2), as installing a
    package or adding a user does. The layer is in memory, since the disk of a container may be an overlay itself.
    """
    layer = directory / "etc"
    lines = {
        "passwd": f"{NAME}:x:{NUMBER}:{NUMBER}::{home}:/bin/sh",
        "group": f"{NAME}:x:{NUMBER}:",
        "subuid": _SUBORDINATE,
        "subgid": _SUBORDINATE,
    }
    # The user comes first, because the machine may have one of the same number: the first line gives a number its name.
    files = "".join(
        f"{{ echo {line}; [ ! -e /etc/{name} ] || cat /etc/{name}; }} >{layer}/upper/{name}\n"
        for name, line in lines.items()
    )
    return f"""
mkdir {layer}
mount -t tmpfs -o mode=755 engine {layer}
mkdir {layer}/upper {layer}/work
{files}
mount -t overlay -o lowerdir=/etc,upperdir={layer}/upper,workdir={layer}/work overlay /etc
"""


def give(path: Path) -> None:
    """Give files to the user."""
    for found in (path, *path.rglob("*")):
        os.chown(found, NUMBER, NUMBER)
