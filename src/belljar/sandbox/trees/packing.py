"""Pack what is below a directory, as its owner sees it, while others may still write there.

Directories are opened one below the other, never by a path of several components, and no link is followed: what an
agent moves or replaces meanwhile cannot lead out of the tree. What disappears between being listed and being opened is
left out. A file's size is written before its content, so a file that grows is cut off there, and one that shrinks is
filled up with zeros. FIFOs, sockets and devices are never opened.
"""

import errno
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

from belljar.sandbox.trees.archive import MAX_DEPTH, TreeError, parts_of

_REPLACED: Final = (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EINVAL)
"""What the kernel answers when something else, or nothing, is where something was a moment ago."""

_CHUNK: Final = 1 << 18
_END: Final = bytes(2 * tarfile.BLOCKSIZE)
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


def pack(path: str, names: Sequence[str], limit: int, archive: BinaryIO) -> None:
    """Write an archive of what the names stand for below a directory. Raises TreeError, OSError."""
    try:
        top = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise TreeError(error.strerror or str(error)) from None
    try:
        packer = _TreePacker(archive, limit)
        for name in names:
            packer.add(top, parts_of(name))
        packer.write(_END)
    finally:
        os.close(top)


class _Found(NamedTuple):
    """Something to pack: its header, and a descriptor of it unless it is a link."""

    header: tarfile.TarInfo
    descriptor: int = -1


class _OpenDirectory(NamedTuple):
    descriptor: int
    entries: "Iterator[os.DirEntry[str]]"
    """Not a list: an agent can make directories of any size."""

    prefix: str

    @classmethod
    def of(cls, descriptor: int, prefix: str) -> "_OpenDirectory":
        try:
            return cls(descriptor, os.scandir(descriptor), prefix)
        except OSError:
            os.close(descriptor)
            raise

    def next_name(self) -> str | None:
        try:
            entry = next(self.entries, None)
        except OSError as error:
            raise TreeError(f"{self.prefix!a} cannot be listed: {error.strerror}") from None
        return None if entry is None else entry.name

    def close(self) -> None:
        self.entries.close()  # type: ignore[attr-defined]  # the iterator of scandir
        os.close(self.descriptor)


class _TreePacker:
    def __init__(self, archive: BinaryIO, limit: int) -> None:
        self._archive, self._limit = archive, limit
        self._size = 0

    def add(self, top: int, parts: Sequence[str]) -> None:
        """Add what has a name, and all that is below it. Nothing happens if it is not there."""
        directory = _parent_of(top, parts)
        if directory is None:
            return
        if not parts:
            self._add_below(_OpenDirectory.of(directory, ""))
            return
        try:
            below = self._add_entry(directory, parts[-1], "/".join(parts))
        finally:
            os.close(directory)
        if below is not None:
            self._add_below(below)

    def write(self, content: bytes) -> None:
        """Write some bytes. Raises TreeError if the archive would exceed its limit."""
        self._size += len(content)
        if self._size > self._limit:
            raise TreeError(f"the archive would have more than {self._limit} bytes")
        self._archive.write(content)

    def _add_below(self, first: _OpenDirectory) -> None:
        levels = [first]
        try:
            while levels:
                level = levels[-1]
                if (name := level.next_name()) is None:
                    levels.pop().close()
                elif (below := self._add_entry(level.descriptor, name, f"{level.prefix}{name}")) is not None:
                    levels.append(below)
                    if len(levels) > MAX_DEPTH:
                        raise TreeError(f"directories are nested deeper than {MAX_DEPTH}")
        finally:
            for level in levels:
                level.close()

    def _add_entry(self, directory: int, name: str, shown: str) -> _OpenDirectory | None:
        """Add one entry; return it if it is a directory."""
        found = _find(directory, name, shown)
        if found is None:
            return None
        try:
            self.write(found.header.tobuf(tarfile.GNU_FORMAT, tarfile.ENCODING, "surrogateescape"))
            if found.header.isreg():
                self._add_content(found.descriptor, found.header.size, shown)
        except BaseException:
            _close(found.descriptor)
            raise
        if found.header.isdir():
            return _OpenDirectory.of(found.descriptor, f"{shown}/")
        _close(found.descriptor)
        return None

    def _add_content(self, file: int, size: int, shown: str) -> None:
        if self._size + size > self._limit:
            raise TreeError(f"the archive would have more than {self._limit} bytes")
        left = size
        while left:
            try:
                piece = os.read(file, min(_CHUNK, left))
            except OSError as error:
                raise TreeError(f"{shown!a} cannot be read: {error.strerror}") from None
            piece = piece or bytes(min(_CHUNK, left))  # it has shrunk
            left -= len(piece)
            self.write(piece)
        self.write(bytes(-size % tarfile.BLOCKSIZE))


def _parent_of(top: int, parts: Sequence[str]) -> int | None:
    """Open the directory that an entry is in; None if it is not there."""
    directory = os.dup(top)
    for depth, part in enumerate(parts[:-1], start=1):
        try:
            below = os.open(part, _DIRECTORY, dir_fd=directory)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TreeError(f"{'/'.join(parts[:depth])!a} is a link, or cannot be opened: {error.strerror}") from None
        finally:
            os.close(directory)
        directory = below
    return directory


def _find(directory: int, name: str, shown: str) -> _Found | None:
    """Open an entry; None if there is nothing there, or nothing that is packed. Raises TreeError."""
    header = tarfile.TarInfo(shown)
    descriptor = -1
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            header.type, header.linkname = tarfile.SYMTYPE, os.readlink(name, dir_fd=directory)
        elif stat.S_ISDIR(status.st_mode):
            header.type, descriptor = tarfile.DIRTYPE, os.open(name, _DIRECTORY, dir_fd=directory)
        elif stat.S_ISREG(status.st_mode):
            descriptor = os.open(name, _FILE, dir_fd=directory)
        else:
            return None
        if descriptor >= 0:
            status = os.fstat(descriptor)
    except OSError as error:
        if error.errno in _REPLACED:
            return None
        raise TreeError(f"{shown!a} cannot be read: {error.strerror}") from None
    if header.isreg():
        if not stat.S_ISREG(status.st_mode):  # a FIFO has taken its place
            os.close(descriptor)
            return None
        header.size = status.st_size
    header.mode, header.mtime = status.st_mode & 0o777, max(0, int(status.st_mtime))
    return _Found(header, descriptor)


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
