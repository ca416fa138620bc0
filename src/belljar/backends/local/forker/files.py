"""Files of a sandbox, by a process that has entered it: it has the agent's view and rights, and no others.

Links are followed as the agent would follow them, in its own file system. What looks like a file may be a pipe or a
device that would keep us waiting; so it is opened without waiting, and looked at before it is used.
"""

import io
import os
import shutil
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from belljar.backends.interface import PathError
from belljar.backends.local.forker.entering import enter
from belljar.backends.local.records import Record
from belljar.sandbox.trees.archive import TreeError
from belljar.sandbox.trees.packing import pack
from belljar.sandbox.trees.unpacking import unpack

if TYPE_CHECKING:
    from typing_extensions import Buffer

_CHUNK: Final = 1 << 20
_BUFFER: Final = 1 << 18


def put(record: Record, path: str, mode: int, content: int) -> None:
    """Write a file with what a descriptor has. Raises PathError, GoneError."""
    enter(record)
    os.umask(0)
    target = _absolute(record, path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        descriptor = _open_file(target, os.O_WRONLY | os.O_CREAT, mode & 0o777)
        with os.fdopen(content, "rb") as source, os.fdopen(descriptor, "wb") as file:
            os.ftruncate(descriptor, 0)
            source.seek(0)
            shutil.copyfileobj(source, file)
            os.fchmod(descriptor, mode & 0o777)
    except OSError as error:
        raise PathError(f"{path} cannot be written inside: {error.strerror}") from error


def get(record: Record, path: str, limit: int) -> int:
    """Return a descriptor of a copy of a file. Raises PathError, GoneError."""
    enter(record)
    copy = os.memfd_create("belljar")
    try:
        descriptor = _open_file(_absolute(record, path), os.O_RDONLY, 0)
        with os.fdopen(descriptor, "rb") as file, os.fdopen(copy, "wb", closefd=False) as target:
            while content := file.read(min(_CHUNK, limit + 1 - target.tell())):
                target.write(content)
            if target.tell() > limit:
                raise PathError(f"{path} has more than {limit} bytes")
    except OSError as error:
        raise PathError(f"{path} cannot be read inside: {error.strerror}") from error
    return copy


def put_tree(record: Record, path: str, archive: io.RawIOBase) -> None:
    """Unpack an archive below a directory. Raises PathError, GoneError."""
    enter(record)
    try:
        with io.BufferedReader(archive, _BUFFER) as source:
            unpack(str(_absolute(record, path)), source)
    except (TreeError, OSError) as error:
        raise PathError(f"{path} cannot be unpacked inside: {error}") from error


def get_tree(record: Record, path: str, archive: io.RawIOBase, names: Sequence[str], limit: int) -> None:
    """Pack what is below a directory. Raises PathError, GoneError."""
    enter(record)
    try:
        with io.BufferedWriter(archive, _BUFFER) as target:
            pack(str(_absolute(record, path)), names, limit, target)
    except (TreeError, OSError) as error:
        raise PathError(f"{path} cannot be packed inside: {error}") from error


class ReportingFile(io.FileIO):
    """A descriptor that reports whenever something was read from it or written to it."""

    def __init__(self, descriptor: int, mode: str, moved: Callable[[], None]) -> None:
        super().__init__(descriptor, mode)
        self._moved = moved

    def readinto(self, buffer: "Buffer") -> int | None:
        """Read into a buffer, and report it."""
        count = super().readinto(buffer)
        self._moved()
        return count

    def write(self, content: "Buffer") -> int | None:  # type: ignore[override]  # as the type of FileIO says
        """Write from a buffer, and report it."""
        count = super().write(content)
        self._moved()
        return count


def _absolute(record: Record, path: str) -> Path:
    if "\0" in path:
        raise PathError("a path with a NUL in it names no file")
    return Path(record.workdir) / path


def _open_file(path: Path, flags: int, mode: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PathError(f"{path} is no regular file")
    return descriptor
