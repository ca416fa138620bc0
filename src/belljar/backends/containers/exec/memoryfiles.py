"""Files that exist in memory only, as the streams of a program whose words are few."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def holding(content: bytes) -> Iterator[int]:
    """Make a file with some content, to be read from its beginning."""
    descriptor = os.memfd_create("belljar", os.MFD_CLOEXEC)
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def room(size: int) -> Iterator[int]:
    """Make a file to be written to, with room for so much and no more, whoever writes."""
    descriptor = os.memfd_create("belljar", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
        yield descriptor
    finally:
        os.close(descriptor)


def written(room: int) -> bytes:
    """Return what was written to a file that had room for it."""
    return os.pread(room, os.lseek(room, 0, os.SEEK_CUR), 0)
