"""What a sandbox has left in its working directory that the host might run: executables, and places it runs code from.

A file's change time is the kernel's, and nobody can set it. So nothing has to be remembered from before.
"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from belljar.sandbox.protected import PLACES

MOST_FILES: Final = 200_000
"""How many files are looked at before a summary would take too long."""

_DATA: Final = {".git/objects", ".git/lfs"}


def runnable_changes(workdir: Path, since_ns: int) -> list[str]:
    """Return what was changed since then and could be run, by its path in the working directory."""
    found = (
        name for name, changed in islice(_files(workdir), MOST_FILES) if changed >= since_ns and _may_run(workdir, name)
    )
    return sorted(found)


def _files(workdir: Path) -> Iterator[tuple[str, int]]:
    for directory, names, files in os.walk(workdir):
        inside = os.path.relpath(directory, workdir)
        names[:] = [name for name in names if os.path.normpath(f"{inside}/{name}") not in _DATA]
        for name in files:
            try:
                changed = os.lstat(f"{directory}/{name}").st_ctime_ns
            except OSError:
                continue
            yield os.path.normpath(f"{inside}/{name}"), changed


def _may_run(workdir: Path, name: str) -> bool:
    if any(name == place or name.startswith(f"{place}/") for place in PLACES):
        return True
    try:
        mode = (workdir / name).lstat().st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o111)
