"""Which rows of the database are stale: something was closed since, and it could not be written down.

An agent can fill the disk that the database is on. That must not keep anybody from closing what it reaches, nor bring
it back when the server is started again. So there is a little file that is as large as it will ever be from the start.
To write into its midst takes no room on the disk, so nobody can race us for any. (File systems that copy what is
overwritten, like btrfs and ZFS, may need some; they keep some for that.)
"""

import errno
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_SLOT_BYTES: Final = 16
"""The name of a sandbox has 15."""

_BYTES: Final = 1 << 16
_NONE: Final = bytes(_SLOT_BYTES)
_LOG: Final = logging.getLogger(__name__)


class StaleRows:
    """Names of sandboxes, in a file that never grows. Closed by `close`."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it. Raises OSError, also if there is no room for all of it."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(self._file, 0, _BYTES)
            content = os.pread(self._file, _BYTES, 0)
        except BaseException:
            os.close(self._file)
            raise
        slots = [content[start : start + _SLOT_BYTES] for start in range(0, _BYTES, _SLOT_BYTES)]
        self._slots: dict[str, int | None] = {
            slot.rstrip(b"\0").decode(errors="replace"): number for number, slot in enumerate(slots) if slot != _NONE
        }
        """Where each name is; None if that could not be noted."""
        self._free = [number for number, slot in enumerate(slots) if slot == _NONE]

    def __contains__(self, sandbox: str) -> bool:
        return sandbox in self._slots

    def add(self, sandbox: str) -> None:
        """Note that what is written down of a sandbox must not be believed. What cannot be noted is logged."""
        if sandbox in self._slots:
            return
        slot = self._slots[sandbox] = self._free.pop() if self._free else None
        try:
            self._write(slot, sandbox.encode().ljust(_SLOT_BYTES, b"\0"))
        except OSError as error:
            _LOG.error("the server must not be started again before %s is written down: %s", sandbox, error)

    def discard(self, sandbox: str) -> None:
        """Note that all is written down again."""
        if sandbox in self._slots:
            slot = self._slots.pop(sandbox)
            if slot is not None:
                self._free.append(slot)
                with suppress(OSError):  # then a sandbox is closed that need not be
                    self._write(slot, _NONE)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _write(self, slot: int | None, content: bytes) -> None:
        if slot is None:
            raise OSError(errno.ENOSPC, "too many sandboxes are not written down")
        os.pwrite(self._file, content, slot * _SLOT_BYTES)
