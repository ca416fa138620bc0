"""What outlives the server: sandboxes, and the events of the latest past."""

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from belljar.control.database import Database
from belljar.control.stale import StaleRows
from belljar.runtime.storage import Row, StoredEvent

KEPT_EVENTS: Final = 5000
"""Of each sandbox and of each sort below; of a sandbox that was deleted, for a day."""

_TRAFFIC: Final = ("flow.allowed", "flow.closed", "dns.answered")
_REFUSALS: Final = ("flow.denied", "dns.denied", "dns.refused")
_SORTS: Final = (
    f"event IN {_TRAFFIC}",
    f"event IN {_REFUSALS}",
    f"event NOT IN {(*_TRAFFIC, *_REFUSALS)}",
)
"""A sandbox can have as much as it likes of what is allowed; that must not wash away what was denied, or decided."""

_DAY: Final = 86400.0


class Told(NamedTuple):
    """An event that is not numbered yet."""

    sandbox: str | None
    event: str
    line: str


class SqliteStore:
    """A `runtime.storage.Store`, with events as well. Methods raise StorageError, and have changed nothing then."""

    def __init__(self, database: Database, stale: StaleRows) -> None:
        self._database = database
        self.stale = stale
        """Sandboxes of which something else is written down than holds, until they are saved again."""

        self._grown: set[str | None] = set()
        """Whose events have become more since some were forgotten."""

    async def rows(self) -> list[Row]:
        """Return all sandboxes, the oldest first."""
        query = "SELECT id, state, policy FROM sandboxes ORDER BY rowid"
        return await self._database.read(lambda db: [Row(*row) for row in db.execute(query)])

    async def save(self, row: Row) -> None:
        """Write a sandbox down, whether it is new or not."""
        query = (
            "INSERT INTO sandboxes (id, state, policy) VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET state = excluded.state, policy = excluded.policy"
        )
        await self._database.write(lambda db: db.execute(query, row))
        self.stale.discard(row.id)

    async def remove(self, sandbox: str) -> None:
        """Forget a sandbox. Its events stay for a while."""
        await self._database.write(lambda db: db.execute("DELETE FROM sandboxes WHERE id = ?", (sandbox,)))
        self.stale.discard(sandbox)

    async def check(self) -> None:
        """Make sure that something can be written."""
        await self._database.write(lambda db: db.execute("DELETE FROM events WHERE id < 0"))

    async def last_event(self) -> int:
        """Return the number of the latest event there ever was."""
        query = "SELECT seq FROM sqlite_sequence WHERE name = 'events'"
        return await self._database.read(lambda db: (db.execute(query).fetchone() or (0,))[0])

    async def add_events(self, told: Sequence[Told]) -> list[StoredEvent]:
        """Number events, and write them down."""
        query, now = "INSERT INTO events (sandbox, event, line, time) VALUES (?, ?, ?, ?)", time.time()

        def add(db: sqlite3.Connection) -> list[StoredEvent]:
            return [StoredEvent(db.execute(query, (*item, now)).lastrowid or 0, *item) for item in told]

        self._grown.update(item.sandbox for item in told)
        return await self._database.write(add)

    async def events(self, *, after: int, sandbox: str | None, limit: int) -> list[StoredEvent]:
        """Return events in their order: those after a number, of one sandbox or of all."""
        query = (
            "SELECT id, sandbox, event, line FROM events"
            " WHERE id > :after AND (:sandbox IS NULL OR sandbox = :sandbox) ORDER BY id LIMIT :limit"
        )
        values = {"after": after, "sandbox": sandbox, "limit": limit}
        return await self._database.read(lambda db: [StoredEvent(*row) for row in db.execute(query, values)])

    async def latest(self, sandbox: str, kinds: Iterable[str], limit: int) -> list[StoredEvent]:
        """Return the latest events of some kinds, the newest first."""
        query = (
            "SELECT id, sandbox, event, line FROM events"
            " WHERE sandbox = ? AND event IN (SELECT value FROM json_each(?)) ORDER BY id DESC LIMIT ?"
        )
        values = (sandbox, json.dumps(list(kinds)), limit)
        return await self._database.read(lambda db: [StoredEvent(*row) for row in db.execute(query, values)])

    async def forget_old_events(self) -> None:
        """Delete all but the latest events of each sandbox, and those of sandboxes that are long gone."""
        grown, self._grown = self._grown, set()

        def forget(db: sqlite3.Connection) -> None:
            for sandbox in grown:
                for sort in _SORTS:
                    oldest = f"SELECT id FROM events WHERE sandbox IS ? AND {sort} ORDER BY id DESC LIMIT 1 OFFSET ?"  # noqa: S608
                    if (bound := db.execute(oldest, (sandbox, KEPT_EVENTS)).fetchone()) is not None:
                        older = f"DELETE FROM events WHERE sandbox IS ? AND {sort} AND id <= ?"  # noqa: S608
                        db.execute(older, (sandbox, *bound))
            gone = "DELETE FROM events WHERE time < ? AND sandbox NOT IN (SELECT id FROM sandboxes)"
            db.execute(gone, (time.time() - _DAY,))

        await self._database.write(forget)
