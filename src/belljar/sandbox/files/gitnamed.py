"""Hooks and further settings that git's settings name, which may lie in a working tree.

Git reads what an included file includes in turn. What is missing is made, as in a git directory: an empty directory has
no hooks, and an empty file no settings. Symbolic links on the way, which a sandbox could replace, are not followed.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from belljar.sandbox.files.gitlayout import settings

_SYSTEM: Final = Path("/etc/gitconfig")
Make = Callable[[int, Path, bytes | None], None]
"""Makes a file with a content, or else a directory, in an open directory."""

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def named_in_settings(git: Path, administration: Path, top: Path) -> Iterator[tuple[Path, bool]]:
    """Yield what a repository's settings, or the user's own, name for a working tree; and whether it is a directory."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    users = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"
    of_the_repository = (git / "config", git / "config.worktree", administration / "config.worktree")
    waiting, seen = [*of_the_repository, home / ".gitconfig", users, _SYSTEM], set[Path]()
    while waiting:
        file = waiting.pop()
        if file in seen:
            continue
        seen.add(file)
        for name, value in settings(file):
            around = {"include.path": file.parent, "includeif.path": file.parent, "core.hookspath": top}
            if name not in around or not value:
                continue
            place = home / value[2:] if value.startswith("~/") else Path(value)
            place = Path(os.path.normpath(around[name] / place))
            is_directory = name == "core.hookspath"
            if not is_directory:
                waiting.append(place)
            # Husky's hooks in `_` run those beside it.
            yield place.parent if is_directory and place.name == "_" else place, is_directory


def occupy(root: Path, place: Path, content: bytes | None, make: Make) -> Path:
    """Make a place that is missing, and the directories from a root to it; return what keeps another from being made.

    That is the place, or a file in the way. `make` leaves what is there, and may make nothing where no sandbox can.
    """
    directory, path = os.open(root, _DIRECTORY), root
    try:
        for name in place.relative_to(root).parts:
            path /= name
            make(directory, path, content if path == place else None)
            if path != place:
                below = os.open(name, _DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = below
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return path
    finally:
        os.close(directory)
    return place
