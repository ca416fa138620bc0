"""What the runtime asks of whoever writes things down, and of whoever tells what happens."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from belljar.errors import BelljarError
from belljar.runtime.events import RuntimeEvent


class StorageError(BelljarError):
    """What is to be written down could not be, and nothing was changed. Make room, or see what the text names."""

    def __init__(self, message: str, *, is_full: bool = False) -> None:
        super().__init__(message)
        self.is_full = is_full


class Row(NamedTuple):
    """A sandbox as it is stored."""

    id: str
    state: str
    network: str


class StoredEvent(NamedTuple):
    """Something that happened; its number is greater than that of whatever happened before."""

    id: int
    sandbox: str | None
    event: str
    line: str


class Stale(Protocol):
    """Sandboxes of which something else is written down than holds. To note one takes no room."""

    def add(self, sandbox: str) -> None:
        """Note that a sandbox's row is stale."""

    def __contains__(self, sandbox: str) -> bool:
        """Tell whether it is."""


class Store(Protocol):
    """What outlives the process. Methods raise StorageError, and have changed nothing then."""

    @property
    def stale(self) -> Stale:
        """Rows that do not hold, until they are saved again."""

    async def rows(self) -> list[Row]:
        """Return all sandboxes, the oldest first."""

    async def save(self, row: Row) -> None:
        """Write a sandbox down, whether it is new or not."""

    async def remove(self, sandbox: str) -> None:
        """Forget a sandbox."""

    async def latest(self, sandbox: str, kinds: Iterable[str], limit: int) -> list[StoredEvent]:
        """Return the latest events of some kinds, the newest first."""


class MemoryStore:
    """A `Store` that keeps rows while the process lives, and no events."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self.stale: set[str] = set()

    async def rows(self) -> list[Row]:
        """See `Store`."""
        return list(self._rows.values())

    async def save(self, row: Row) -> None:
        """See `Store`."""
        self._rows[row.id] = row
        self.stale.discard(row.id)

    async def remove(self, sandbox: str) -> None:
        """See `Store`."""
        self._rows.pop(sandbox, None)
        self.stale.discard(sandbox)

    async def latest(self, sandbox: str, kinds: Iterable[str], limit: int) -> list[StoredEvent]:  # noqa: ARG002 - none
        """See `Store`."""
        return []


class EventSink(Protocol):
    """Who is told what happens."""

    def tell(self, sandbox: str, event: RuntimeEvent) -> None:
        """Take note of an event."""
