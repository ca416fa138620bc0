"""What groups have used, counted by several brokers at the same time or one after another.

Theory of operation
-------------------
Each `belljar run` has a broker and a ledger of its own, which ends with it. Runs of one user that name the same group
share the directory that `groups` in the ledger's directory leads to. A group has one file there with its sums. Each
change is made under a lock: the file is read, and its successor is written beside it and renamed into its place. So a
broker that is killed in between leaves the old sums or the new ones, and the kernel releases its lock. A file that
cannot be read is no empty one: nothing is admitted until the user has removed it.

Whether a request may be sent is decided under the same lock as counting it, so that two brokers do not both send the
last one. What requests under way may still use is known to their own broker only.
"""

import errno
import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from belljar.broker.spending.ledger import Amounts, Key, SpendingLedger
from belljar.broker.starting import GROUPS

_GROUP: Final = "group"
_MADE_HERE: Final = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class SharedLedger(SpendingLedger):
    """A ledger whose groups are those of other brokers as well."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._groups = directory / GROUPS
        self._groups_lock = os.open(self._groups / "lock", os.O_RDWR | _MADE_HERE, 0o600)
        self._holders = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other brokers from counting meanwhile. Raises OSError."""
        if not self._holders:
            fcntl.flock(self._groups_lock, fcntl.LOCK_EX)
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                fcntl.flock(self._groups_lock, fcntl.LOCK_UN)

    def used(self, key: Key) -> Amounts:
        """Return how much has been used. Raises OSError."""
        if key[0] != _GROUP:
            return super().used(key)
        path = self._path_of(key)
        try:
            used = Amounts(**json.loads(path.read_bytes()))
            if all(map(math.isfinite, used)):  # a bound is never exceeded by what is not a number
                return used
        except FileNotFoundError:
            return Amounts()
        except (ValueError, TypeError):
            pass
        raise OSError(errno.EBADMSG, f"{path} is damaged; remove it to begin anew")

    def add(self, key: Key, more: Amounts) -> None:
        """Count, and write it down. Raises OSError."""
        if key[0] != _GROUP:
            super().add(key, more)
        elif any(more):
            with self.held():
                self._write(self._path_of(key), self.used(key).plus(more))

    def close(self) -> None:
        """Let another broker have the directory."""
        super().close()
        os.close(self._groups_lock)

    def _path_of(self, key: Key) -> Path:
        return self._groups / f"{key[1]}.json"

    def _write(self, path: Path, used: Amounts) -> None:
        new = path.with_name(f"{path.name}.new")
        file = os.open(new, os.O_WRONLY | os.O_TRUNC | _MADE_HERE, 0o600)
        with os.fdopen(file, "w") as stream:
            json.dump(used._asdict(), stream)
        new.rename(path)


def open_ledger(directory: Path) -> SpendingLedger:
    """Return the ledger in a directory."""
    return SharedLedger(directory) if (directory / GROUPS).is_dir() else SpendingLedger(directory)
