"""The audit log: one line of JSON for each event, in one write, and no trouble for the gateway.

Theory of operation
-------------------
A line is ASCII, with every control character escaped, and short enough (less than 4096 bytes) that the kernel
writes it to a pipe whole or not at all. The descriptor appends, so several writers can share a file.

Whatever keeps a line from being written (a reader that is too slow, a full disk, a pipe that nobody reads), it waits
in a queue, and lines that were begun are finished before others. When the queue is full, what comes is lost; the loss
is counted, and told in the log as soon as there is room. Whoever would rather have the gateway wait than lose a line
says so with ``on_full="block"``; that helps against slow readers only, for a full disk would be waited for in vain.

What is allowed and comes too fast is summed up before it becomes lines (`folding`).
"""

import os
import select
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Final, Literal

from belljar.gateway.audit.events import EVENTS, VERSION, AuditLost, Event, SandboxClosed
from belljar.gateway.audit.folding import Folding
from belljar.gateway.io.loop import Loop

QUEUE_LINES: Final = 4096

_FLUSH_SECONDS: Final = 1.0
_REMEMBERED_VALUES: Final = 1024  # most of what is told has been told before
_APPEND: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_TEMPLATES: Final = {
    kind: f'{{"v":{VERSION},"time":"%s","event":"{name}","sandbox":%s'
    + "".join(f',"{field}":%s' for field in kind._fields)
    + "}\n"
    for kind, name in EVENTS.items()
}
"""Lines with their values left out: filling one in takes half the time of encoding a dictionary."""


def open_log(path: str) -> int:
    """Open a file, or a named pipe that has a reader, for an AuditLog. Raises OSError."""
    return os.open(path, _APPEND, 0o600)


class AuditLog:
    """Writes events to a descriptor; serves any number of sandboxes."""

    def __init__(
        self,
        descriptor: int,
        *,
        on_full: Literal["lose", "block"] = "lose",
        clock: Callable[[], float] = time.time,
        queue_lines: int = QUEUE_LINES,
    ) -> None:
        """`descriptor` is open for appending. Lines wait in the queue only if it does not block."""
        self._descriptor = descriptor
        self._on_full = on_full
        self._clock = clock
        self._queue: deque[bytes] = deque()
        self._queue_lines = queue_lines
        self._folding = Folding()
        self._would_block = False
        self._unreported = 0
        self._second = -1
        self._date = ""

    @property
    def waiting(self) -> int:
        """How many lines wait to be written; while there are any, somebody should call `flush` now and then."""
        return len(self._queue)

    def write(self, sandbox: str | None, event: Event) -> bool:
        """Write an event, or sum it up with others; False if it is lost."""
        now = self._clock()
        if self._folding.folds(sandbox, event, now):
            return True
        if isinstance(event, SandboxClosed):
            for folded in self._folding.take_all(sandbox):
                self._write(*folded, now)
        return self._write(sandbox, event, now)

    def tell_sums(self) -> None:
        """Write what was summed up and is due; somebody should call this now and then."""
        now = self._clock()
        for folded in self._folding.take_due(now):
            self._write(*folded, now)

    def flush(self) -> None:
        """Write what waits, as far as it goes."""
        queue = self._queue
        try:
            while queue:
                line = queue[0]
                written = os.write(self._descriptor, line)
                if written == len(line):
                    queue.popleft()
                else:
                    queue[0] = line[written:]
        except OSError as error:
            self._would_block = isinstance(error, BlockingIOError)

    def close(self) -> None:
        """Write what can be written, and close the descriptor."""
        now = self._clock()
        for folded in self._folding.take_rest():
            self._write(*folded, now)
        self.flush()
        self._report_loss(now)
        self.flush()
        os.close(self._descriptor)

    def _write(self, sandbox: str | None, event: Event, now: float) -> bool:
        if self._queue and not self._make_room():
            self._unreported += 1
            return False
        if self._unreported:
            self._report_loss(now)
        self._queue.append(self._line(sandbox, event, now))
        self.flush()
        return True

    def _make_room(self) -> bool:
        """Tell whether the queue can take one more line, and the report of a loss."""
        self.flush()
        while len(self._queue) + 1 >= self._queue_lines:
            if self._on_full == "lose" or not self._would_block:
                return False
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLOUT)
            waiting.poll()
            self.flush()
        return True

    def _report_loss(self, now: float) -> None:
        if self._unreported:
            self._queue.append(self._line(None, AuditLost(self._unreported, "full"), now))
            self._unreported = 0

    def _line(self, sandbox: str | None, event: Event, now: float) -> bytes:
        second = int(now)
        if second != self._second:
            self._second = second
            self._date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        timestamp = f"{self._date}.{int((now - second) * 1000):03}Z"
        line = _TEMPLATES[type(event)] % (timestamp, _to_json(sandbox), *map(_to_json, event))
        return line.encode("ascii")


async def keep_flushed(loop: Loop, log: AuditLog) -> None:
    """Write what could not be written at once, as soon as it can be, more or less."""
    while True:
        await loop.sleep(_FLUSH_SECONDS)
        log.tell_sums()
        log.flush()


@lru_cache(_REMEMBERED_VALUES, typed=True)
def _to_json(value: str | float | tuple[str, ...] | None) -> str:
    if isinstance(value, str):
        # DEL is the one control character that JSON leaves alone.
        return encode_basestring_ascii(value).replace("\x7f", "\\u007f")
    if isinstance(value, tuple):
        return f"[{','.join(map(_to_json, value))}]"
    return "null" if value is None else repr(value)
