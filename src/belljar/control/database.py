"""SQLite on a thread of its own: one function at a time, in a transaction, and errors that say what to do.

What was committed is there after a crash of the server, which is what counts: after a crash of the machine there are no
sandboxes left that the latest rows could be about. So commits do not wait for the disk.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from belljar.runtime.storage import StorageError

T = TypeVar("T")

_VERSION: Final = 1
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS sandboxes (id TEXT PRIMARY KEY, state TEXT NOT NULL, policy TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY AUTOINCREMENT, sandbox TEXT, event TEXT NOT NULL, time REAL NOT NULL, line TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS events_of_sandbox ON events (sandbox, id);
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_LOCKED_SECONDS: Final = 5.0
_NO_ROOM: Final = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})


class Database:
    """A database in a file. Closed by `close`; what is under way is finished first."""

    def __init__(self, path: Path) -> None:
        """Open it, or make it. Raises StorageError."""
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="belljar-database")
        try:
            self._connection = self._thread.submit(self._open).result()
        except BaseException:
            self._thread.shutdown()
            raise

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Ask for something. Raises StorageError."""
        return await self._run(lambda: self._translated(lambda: function(self._connection)))

    async def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """Change something: all of it, or nothing. Raises StorageError."""
        return await self._run(lambda: self._translated(lambda: self._transact(function)))

    def close(self) -> None:
        """Close the file."""
        self._thread.submit(self._connection.close).result()
        self._thread.shutdown()

    async def _run(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def _open(self) -> sqlite3.Connection:
        self._path.touch(0o600)
        return self._translated(self._connect)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_LOCKED_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            self._check(connection)
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: sqlite3.Connection) -> None:
        [(check,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if check != "ok":
            raise sqlite3.DatabaseError(check)
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version > _VERSION:
            raise StorageError(f"{self._path} was made by a newer Belljar; use that one, or another state directory")

    def _transact(self, function: Callable[[sqlite3.Connection], T]) -> T:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            result = function(self._connection)
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # some errors have ended the transaction already
                self._connection.execute("ROLLBACK")
            raise
        return result

    def _translated(self, function: Callable[[], T]) -> T:
        try:
            return function()
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> StorageError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NO_ROOM:
            return StorageError(f"{self._path} cannot be written ({error}); make room on its disk", is_full=True)
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StorageError(f"{self._path} is locked by another program; end whatever has it open")
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            return StorageError(f"{self._path} cannot be written ({error}); check who owns it and its directory")
        return StorageError(
            f"{self._path} is damaged ({error}); move it away to begin anew, which ends the sandboxes it knew of, "
            "or bring back a copy"
        )
