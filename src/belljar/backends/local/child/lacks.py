"""What a sandbox could not be made for want of."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from belljar.errors import BelljarError


class Lack(StrEnum):
    """What the kernel withholds. Who can give it, the parent finds out (`surroundings`)."""

    NAMESPACES = "namespaces"
    MOUNTS = "mounts"
    PROC = "proc"
    ROOT = "root"
    """Root's rights: its sandboxes take more than an ordinary user's."""


class StagingError(BelljarError):
    """The sandbox could not be made."""

    def __init__(self, text: str, lack: Lack | None = None) -> None:
        super().__init__(text)
        self.lack = lack


@contextmanager
def needed(lack: Lack, complaint: str) -> Iterator[None]:
    """Do what the kernel may withhold. Raises StagingError."""
    try:
        yield
    except OSError as error:
        raise StagingError(f"{complaint}: {error.strerror}", lack) from error
