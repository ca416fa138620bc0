"""Unpack an archive below a directory, and nowhere else, whatever the archive or the tree holds.

Each component of a name is opened or made in the directory before it, and a link is never followed, whether it comes
from the archive or was there before. A file takes the place of one that is there, which is removed first: nothing is
written through a link, a second name of a file, or a FIFO. Devices are never made.
"""

import os
import stat
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO, Final

from belljar.sandbox.trees.archive import ArchiveReader, TreeError, parts_of

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_LAST_TIME: Final = 1 << 34
"""Of a file's modification, in seconds. File systems know times up to some century, and an archive any number."""


def unpack(path: str, archive: BinaryIO) -> None:
    """Unpack an archive, read to its end, below a directory, which is made if it is not there.

    Raises TreeError, OSError; then part of the archive may have been unpacked.
    """
    umask = os.umask(0)
    try:
        _unpack(path, archive)
    finally:
        os.umask(umask)


def _unpack(path: str, archive: BinaryIO) -> None:
    try:
        os.makedirs(path, mode=0o755, exist_ok=True)  # noqa: PTH103 - a quick start
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise TreeError(error.strerror or str(error)) from None
    unpacker = _TreeUnpacker(top)
    reader = ArchiveReader(archive)
    try:
        for entry in reader.entries():
            try:
                unpacker.add(entry, reader)
            except OSError as error:
                raise TreeError(f"{entry.name!a} cannot be made: {error.strerror}") from None
    finally:
        unpacker.close()


class _Level:
    """A directory that is open."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name, self.descriptor = name, descriptor
        self.mode: int | None = None
        """Set when it is left: a directory may be closed to its owner, who still has to fill it."""

    def close(self) -> None:
        try:
            if self.mode not in {None, stat.S_IMODE(os.fstat(self.descriptor).st_mode)}:
                with suppress(PermissionError):  # it was there, and belongs to another user
                    os.fchmod(self.descriptor, self.mode or 0)
        finally:
            os.close(self.descriptor)


class _TreeUnpacker:
    def __init__(self, top: int) -> None:
        self._levels = [_Level("", top)]

    def add(self, entry: tarfile.TarInfo, reader: ArchiveReader) -> None:
        """Make what an entry describes. Raises TreeError, OSError."""
        parts = parts_of(entry.name)
        mode = entry.mode & 0o777
        if entry.isdir():
            level = self._enter(parts)
            if parts:  # the directory itself stays as it is
                level.mode = mode
            return
        if not parts:
            raise TreeError(f"{entry.name!a} is the directory itself, but no directory in the archive")
        directory, name = self._enter(parts[:-1]).descriptor, parts[-1]
        source = self._source_of(entry) if entry.islnk() else None
        try:
            self._remove(directory, name)
            if source is not None:
                os.link(source[1], name, src_dir_fd=source[0], dst_dir_fd=directory, follow_symlinks=False)
            elif entry.issym():
                os.symlink(entry.linkname, name, dir_fd=directory)
            else:
                _write_file(directory, name, mode, entry, reader)
        finally:
            if source is not None:
                os.close(source[0])

    def close(self) -> None:
        """Close all directories."""
        while self._levels:
            with suppress(OSError):
                self._levels.pop().close()

    def _enter(self, parts: Sequence[str]) -> _Level:
        """Open a directory, and make those that are missing. Those that the last one has in common stay open."""
        common = 0
        for level, part in zip(self._levels[1:], parts, strict=False):
            if level.name != part:
                break
            common += 1
        while len(self._levels) > common + 1:
            self._levels.pop().close()
        for part in parts[common:]:
            parent = self._levels[-1].descriptor
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=parent)
            self._levels.append(_Level(part, os.open(part, _DIRECTORY, dir_fd=parent)))
        return self._levels[-1]

    def _source_of(self, entry: tarfile.TarInfo) -> tuple[int, str]:
        """Return where the file is that an entry is a second name of: its directory, opened, and its name there."""
        parts = parts_of(entry.linkname)
        if not parts:
            raise TreeError(f"{entry.name!a} is a second name of a directory in the archive")
        directory = os.dup(self._levels[0].descriptor)
        for part in parts[:-1]:
            try:
                below = os.open(part, _DIRECTORY, dir_fd=directory)
            finally:
                os.close(directory)
            directory = below
        return directory, parts[-1]

    @staticmethod
    def _remove(directory: int, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)


def _write_file(directory: int, name: str, mode: int, entry: tarfile.TarInfo, reader: ArchiveReader) -> None:
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for piece in reader.content():
            left = memoryview(piece)
            while left:
                left = left[file.write(left) :]
        os.fchmod(descriptor, mode)
        changed = min(max(0, int(entry.mtime)), _LAST_TIME)
        os.utime(descriptor, (changed, changed))
