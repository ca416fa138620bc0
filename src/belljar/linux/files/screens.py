"""Directories of the host as they are, but for sockets, FIFOs and devices, which are dead.

Theory of operation
-------------------
A read-only mount does not stop anybody from connecting to a socket in it, or from talking through a FIFO: those are
found by their inodes, and nothing is written to the file system. In an overlay they have inodes of the overlay's own,
with nobody at the other end, whoever makes them and whenever; ordinary files are those of the directory below it. So a
directory is shown through an overlay that has it as its only layer with something in it.

An overlay shows one file system. What is mounted further down would not be seen, but what it hides would be, and that
the kernel does not allow. A directory with mounts below it is therefore put together anew: from overlays of its
directories, and its ordinary files one by one.

The overlay reads the host's files with the rights of whoever mounted it, and lets nobody read what they could not read
before. It takes Linux 5.11, unless one is root.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from belljar.linux.files import mounts


class Screens:
    """Makes screens before directories."""

    def __init__(self, empty: Path) -> None:
        """`empty` is a directory with nothing in it: it takes two to make a read-only overlay."""
        self._empty = empty
        self._mounts = mounts.mount_points()

    def screen(self, source: Path, target: Path, ours: Path | None = None) -> None:
        """Show a directory at an empty one, with the files of another in place of its own. Raises OSError."""
        above = f"{source}/"
        if any(mount.startswith(above) for mount in self._mounts):
            self._put_together(source, target, ours)
            return
        with _held(source) as held:
            mounts.mount_overlay(target, *((held, str(self._empty)) if ours is None else (str(ours), held)))

    def _put_together(self, source: Path, target: Path, ours: Path | None) -> None:
        replaced = {entry.name: entry for entry in ours.iterdir()} if ours is not None else {}
        for name, place in replaced.items():
            self._replace(source / name, target / name, place)
        with os.scandir(source) as entries:
            for entry in entries:
                if entry.name not in replaced:
                    self._add(entry, target / entry.name)

    def _replace(self, source: Path, target: Path, ours: Path) -> None:
        if ours.is_dir():
            target.mkdir()
            self.screen(source if source.is_dir() and not source.is_symlink() else self._empty, target, ours)
        else:
            target.touch()
            mounts.bind(str(ours), target)

    def _add(self, entry: "os.DirEntry[str]", target: Path) -> None:
        path = Path(entry.path)
        if entry.is_symlink():
            target.symlink_to(path.readlink())
        elif entry.is_dir():
            target.mkdir()
            try:
                self.screen(path, target)
            except OSError:
                # Not every file system can be shown so, nor can everybody look into every directory: it stays empty.
                if entry.path not in self._mounts and os.access(path, os.R_OK | os.X_OK):
                    raise
        elif entry.is_file():
            target.touch()
            with suppress(OSError):  # it was there a moment ago
                _show_file(path, target)


def _show_file(source: Path, target: Path) -> None:
    with _held(source) as held:
        if stat.S_ISREG(Path(held).stat().st_mode):
            mounts.bind(held, target)


@contextmanager
def _held(path: Path) -> Iterator[str]:
    """Hold what a path leads to now, and give it a name that has no special character."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
