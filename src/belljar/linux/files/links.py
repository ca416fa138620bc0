"""The symbolic links that a path goes through: who can replace one decides where the path leads."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_MOST_LINKS: Final = 40
"""As many as the kernel follows."""


def links_on(path: Path) -> Iterator[Path]:
    """Yield every link on the way that an absolute path takes, also those behind others, each by where it really is."""
    here, steps, links = Path("/"), list(path.parts[:0:-1]), 0
    while steps:
        there = here / steps.pop()
        if there.name == "..":
            here = here.parent
        elif not os.path.islink(there):  # noqa: PTH114 - `Path.is_symlink` raises where we may not look
            here = there
        elif (links := links + 1) > _MOST_LINKS:
            return
        else:
            yield there
            target = there.readlink()
            here = Path("/") if target.is_absolute() else here
            steps += (part for part in reversed(target.parts) if part != "/")
