"""Everything that happens, in one order, for whoever wants to follow.

Theory of operation
-------------------
The gateway's workers write their audit lines into a pipe, whose other end is here; the server adds lines of its own.
Lines are numbered by being written down, a batch at a time, and told to followers after that. So a number that a
follower has seen is in the database, and numbers grow across restarts.

A follower is nothing but the number of the last event it has seen. The latest events are in memory; one that is slow,
or comes back after a while, is served from the database until it has caught up. Nothing is queued for anybody.

If lines come faster than they can be written down, the pipe fills up and the workers count what they lose
(`audit.lost`); the gateway does not wait.
"""

import asyncio
import fcntl
import json
import logging
import os
import time
from bisect import bisect_right
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from belljar.control.store import SqliteStore, Told
from belljar.gateway.audit.events import VERSION
from belljar.runtime.events import EVENT_NAMES, RuntimeEvent
from belljar.runtime.storage import StorageError, StoredEvent

_PIPE_BYTES: Final = 1 << 20
_IN_MEMORY: Final = 4096
_AT_ONCE: Final = 500
_MOST_WAITING: Final = 20_000
_RETRY_SECONDS: Final = 1.0
_QUIET_SECONDS: Final = 15.0
_FORGET_EVERY: Final = 1000


class Hub:
    """Numbers events, keeps them and passes them on. Lives on the loop's thread."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._pipe, self.audit = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """`audit` is where the gateway writes its lines to."""

        with suppress(OSError):  # an ordinary user's share may be used up
            fcntl.fcntl(self.audit, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._partial = b""
        self._waiting: list[Told] = []
        self._latest: list[StoredEvent] = []
        self._last = 0
        self._news = asyncio.Event()
        self._work = asyncio.Event()
        self._since_forgetting = 0
        self._writer: asyncio.Task[None] | None = None
        self.is_closed = False

    @property
    def last(self) -> int:
        """The number of the latest event."""
        return self._last

    async def start(self) -> None:
        """Begin. Raises StorageError."""
        self._last = await self._store.last_event()
        asyncio.get_running_loop().add_reader(self._pipe, self._read)
        self._writer = asyncio.create_task(self._write())

    async def stop(self) -> None:
        """Write down what is there, and send all followers away."""
        if self._writer is not None:
            self._writer.cancel()
            with suppress(asyncio.CancelledError):
                await self._writer
        self._read()
        with suppress(StorageError):
            await self._number()
        asyncio.get_running_loop().remove_reader(self._pipe)
        self.disconnect_followers()
        os.close(self._pipe)
        os.close(self.audit)

    def disconnect_followers(self) -> None:
        """End the streams of all followers."""
        self.is_closed = True
        self._news.set()

    def tell(self, sandbox: str, event: RuntimeEvent) -> None:
        """Add an event of the server's own, after those of the gateway that led to it."""
        self._read()
        self._waiting.append(_told(sandbox, event))
        self._work.set()

    async def follow(
        self, after: int, sandbox: str | None = None, *, wait: bool = True
    ) -> AsyncIterator[list[StoredEvent]]:
        """Yield what has happened after a number and, with `wait`, what does; now and then nothing, if nothing does."""
        seen = min(after, self._last)
        while not self.is_closed:
            news = self._news
            found, seen = await self._next(seen, sandbox)
            if found or seen < self._last:
                yield found
                continue
            if not wait:
                return
            try:
                await asyncio.wait_for(news.wait(), _QUIET_SECONDS)
            except TimeoutError:
                yield []

    async def _next(self, seen: int, sandbox: str | None) -> tuple[list[StoredEvent], int]:
        """Return some of what comes after a number, and the number that has been looked at by then."""
        oldest = self._latest[0].id if self._latest else self._last + 1
        if seen + 1 < oldest:
            found = await self._store.events(after=seen, sandbox=sandbox, limit=_AT_ONCE)
            return found, found[-1].id if found else oldest - 1
        start = bisect_right(self._latest, seen, key=lambda event: event.id)
        looked_at = self._latest[start : start + _AT_ONCE]
        found = [event for event in looked_at if sandbox is None or event.sandbox == sandbox]
        return found, looked_at[-1].id if looked_at else seen

    def _read(self) -> None:
        """Take what the gateway has written."""
        with suppress(BlockingIOError):
            while len(self._waiting) < _MOST_WAITING:
                lines = (self._partial + os.read(self._pipe, _PIPE_BYTES)).split(b"\n")
                self._partial = lines.pop()
                self._waiting += map(_parse, lines)
                self._work.set()
            asyncio.get_running_loop().remove_reader(self._pipe)  # until some of it is written down

    async def _write(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._number()
            except StorageError as error:
                logging.getLogger(__name__).warning("events wait in memory: %s", error)
                self._work.set()
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                asyncio.get_running_loop().add_reader(self._pipe, self._read)

    async def _number(self) -> None:
        """Write down what waits, and tell it."""
        if not self._waiting:
            return
        batch = self._waiting[:_MOST_WAITING]
        events = await self._store.add_events(batch)
        del self._waiting[: len(batch)]
        self._latest += events
        del self._latest[:-_IN_MEMORY]
        self._last = events[-1].id
        self._news.set()
        self._news = asyncio.Event()
        self._since_forgetting += len(events)
        if self._since_forgetting >= _FORGET_EVERY:
            self._since_forgetting = 0
            await self._store.forget_old_events()


def _parse(line: bytes) -> Told:
    fields = json.loads(line)
    return Told(fields["sandbox"], fields["event"], line.decode())


def _told(sandbox: str, event: RuntimeEvent) -> Told:
    """Return what happened as a line like those of the audit log, with the same common fields."""
    now, name = time.time(), EVENT_NAMES[type(event)]
    stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
    common = {"v": VERSION, "time": stamp, "event": name, "sandbox": sandbox}
    return Told(sandbox, name, json.dumps(common | event._asdict(), separators=(",", ":")))
