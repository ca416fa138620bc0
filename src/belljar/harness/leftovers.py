"""The private directories of runs, and what killed runs have left behind.

A run keeps a lock on its directory while it lives. A directory whose lock is free belongs to a run that was
killed: its sandboxes are destroyed by the backend that made them, and the directory is removed. The name of the backend
is written down before the first sandbox is made.
"""

import fcntl
import logging
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from belljar.backends import registry
from belljar.errors import BelljarError, reason
from belljar.statedir import default_state

BACKENDS: Final = "backends"
"""The directory below which a run's backend keeps its files."""

_LOCK: Final = "lock"
_BACKEND: Final = "backend"
_LOG: Final = logging.getLogger(__name__)


class StateError(BelljarError):
    """The state directory cannot be used. Name another."""


def default_eval_state() -> Path:
    """Return the directory that has the private directories of this user's runs."""
    return default_state().with_name("belljar-eval")


def open_state(path: Path) -> Path:
    """Make the state directory, and return it without links. Raises StateError."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        raise StateError(
            f"the state directory {path} cannot be made ({reason(error)}); name another with --state"
        ) from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise StateError(f"the state directory {path} is open to others; chmod 700 it, or name another with --state")
    return path.resolve()


@contextmanager
def run_directory(state: Path, backend: str) -> Iterator[Path]:
    """Make a private directory for a run, and remove it at the end. Raises StateError."""
    runs = state / "runs"
    try:
        runs.mkdir(mode=0o700, exist_ok=True)
        with _locked(state / _LOCK, fcntl.LOCK_EX):  # no sweep sees the directory before it is locked
            directory = runs / secrets.token_hex(4)
            directory.mkdir(mode=0o700)
            (directory / _BACKEND).write_text(backend)
            (directory / BACKENDS).mkdir(mode=0o700)
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise StateError(f"{state} cannot be written ({reason(error)}); name another with --state") from None
    try:
        yield directory
    finally:
        try:
            _remove(directory, backend)
        except BelljarError as error:
            _LOG.warning("%s is left over; the next run removes it: %s", directory, error)
        os.close(lock)


def sweep(state: Path) -> int:
    """Remove what killed runs have left behind; return how many runs it was."""
    swept = 0
    for directory in sorted((state / "runs").glob("*")):
        with suppress(BlockingIOError, FileNotFoundError), _locked(state / _LOCK, fcntl.LOCK_EX):
            lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                backend = (directory / _BACKEND).read_text() if (directory / _BACKEND).exists() else ""
                _remove(directory, backend)
                swept += 1
            except BelljarError as error:
                _LOG.warning("a killed run's %s cannot be removed yet: %s", directory, error)
            finally:
                os.close(lock)
    return swept


def _remove(directory: Path, backend: str) -> None:
    """Destroy every sandbox of a run, and remove its directory. Raises BelljarError."""
    place = directory / BACKENDS / backend
    if backend and place.is_dir() and any(place.iterdir()):
        opened = registry.find(backend).open(place, os.environ)
        try:
            for found in opened.sandboxes():
                opened.destroy(found.sandbox)
        finally:
            opened.close()
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise StateError(f"{directory} cannot be removed ({reason(error)}); remove it by hand") from None


@contextmanager
def _locked(path: Path, how: int) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, how)
        yield
