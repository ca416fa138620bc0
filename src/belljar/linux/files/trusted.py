"""Which files the host may run or believe: those that no sandbox of this user can have written.

Theory of operation
-------------------
Any directory that a user can write to may have been the working directory of a sandbox once, and an agent may have put
a program or a setting there. Nothing in a file tells who wrote it; where it is does. So a file is trusted by its place:

- It is in one of the system's directories, which no sandbox can have as a working directory or be shown writable, and
  all of the way there is root's, and writable to root alone.
- Or it is at one of a few places of the user's that are named (`places`), and all of the way there is root's or the
  user's, and writable to nobody else. Who shows such a place to a sandbox, writable, hands it over; of the sandboxes
  that are known (`exposed`), none has it.

The way is walked one step at a time. A symbolic link is part of it: the link has to be at a trusted place, and so has
what it leads to, with all that is in between. Nobody but those who are trusted can change such a way, so it still leads
to the same file when it is used.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from os import stat_result
from pathlib import Path
from typing import Final, NamedTuple

SYSTEM: Final = tuple(
    map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix", "/gnu"))
)
"""The system's directories: root's, by custom."""

_ON_NIXOS: Final = Path("/run/current-system")
_ROOT: Final = Path("/")
_MOST_LINKS: Final = 40
"""As many as the kernel follows."""

_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UntrustedError(Exception):
    """A file that a sandbox may have written. The text names it, and says why it is not trusted."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path} is not trusted, since {why}")
        self.path, self.why = path, why


class Trust(NamedTuple):
    """Whose files are trusted, and where. The default is root's, in the system's directories."""

    system: tuple[Path, ...] = (*SYSTEM, _ON_NIXOS)

    user: int = 0
    group: int | None = None
    """A group that nobody but the user is in."""

    places: tuple[Path, ...] = ()
    """Where files of the user's are trusted."""

    exposed: tuple[Path, ...] = ()
    """Where sandboxes can write."""

    def check(self, path: Path) -> Path:
        """Return which file an absolute path leads to, which is without links. Raises UntrustedError, and OSError."""
        self._check_place(path, path)
        # The root directory is shown to no sandbox. In a container it may belong to anybody.
        here, steps, links = _ROOT, list(path.parts[:0:-1]), 0
        while steps:
            step = steps.pop()
            if step == "..":
                here = here.parent
                continue
            there = here / step
            status = there.lstat()
            self._check_rights(there, status, path)
            if not stat.S_ISLNK(status.st_mode):
                here = there
                continue
            self._check_place(there, path)
            if (links := links + 1) > _MOST_LINKS:
                raise UntrustedError(path, "its links lead in a circle")
            target = there.readlink()
            here = _ROOT if target.is_absolute() else here
            steps += (part for part in reversed(target.parts) if part != "/")
        self._check_place(here, path)
        return here

    def _check_place(self, there: Path, path: Path) -> None:
        if _is_in(there, self.system):
            return
        if not _is_in(there, self.places):
            leads = f"it leads to {there}, which is" if there != path else "it is"
            raise UntrustedError(path, f"{leads} where a sandbox can have written")
        if _is_in(there, self.exposed):
            raise UntrustedError(path, "a sandbox can write there")

    def _check_rights(self, there: Path, status: stat_result, path: Path) -> None:
        which = "it" if there == path else there
        if not _is_roots(status.st_uid) and (status.st_uid != self.user or _is_in(there, self.system)):
            raise UntrustedError(path, f"{which} belongs to user {status.st_uid}")
        if stat.S_ISLNK(status.st_mode):  # has no mode of its own
            return
        open_to = status.st_mode & _OTHERS_MAY_WRITE
        if open_to == stat.S_IWGRP and status.st_gid == self.group and status.st_uid == self.user:
            return
        # In a sticky directory nobody can replace what is another's, and what is in it is looked at next.
        if open_to and not (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX):
            raise UntrustedError(path, f"others can write to {which}; chmod go-w {there}")


def links_on(path: Path) -> Iterator[Path]:
    """Yield every link on the way that an absolute path takes, also those behind others, each by where it really is.

    Who can replace one decides where the path leads.
    """
    here, steps, links = _ROOT, list(path.parts[:0:-1]), 0
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
            here = _ROOT if target.is_absolute() else here
            steps += (part for part in reversed(target.parts) if part != "/")


def _is_in(path: Path, directories: Iterable[Path]) -> bool:
    return any(map(path.is_relative_to, directories))


def _is_roots(owner: int) -> bool:
    """Tell whether a file's owner is root, who in a user namespace without a root of the machine is seen as nobody."""
    return owner == 0 or owner == _nobody()


def _nobody() -> int | None:
    """Return the number that stands for users whom our user namespace does not have, if it is no other user's.

    Where there is no root either, it is root's, whosever it is besides.
    """
    # Not remembered: we change namespaces.
    number = int(Path("/proc/sys/kernel/overflowuid").read_text())
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    are_there = (any(first <= user < first + length for first, _, length in ranges) for user in (0, number))
    return None if all(are_there) else number
