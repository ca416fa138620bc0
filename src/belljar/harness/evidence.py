"""What the gateway saw of each sandbox of a run: sums by destination, and the audit lines themselves.

The gateway writes its audit lines into a pipe. They are read here, on the loop, and sorted by sandbox. A sandbox whose
line `sandbox.closed` has come is complete: the gateway writes nothing about it any more.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from belljar.gateway.audit.events import (
    COMMON_FIELDS,
    EVENTS,
    AuditLost,
    Event,
    PolicyChanged,
    SandboxClosed,
    SandboxInterrupted,
)
from belljar.sandbox.ledger import Ledger

MAX_LOG_BYTES: Final = 32 << 20
"""Bytes of audit lines that are kept of one sandbox. The sums have everything."""

_PIPE_BYTES: Final = 1 << 20
_CLOSED_TIMEOUT: Final = 5.0
_KINDS: Final[Mapping[str, Callable[..., Event]]] = {name: kind for kind, name in EVENTS.items()}


class NetworkEvidence:
    """What one sandbox reached and was denied."""

    def __init__(self, log: Path) -> None:
        self.ledger = Ledger()
        self.complete = asyncio.Event()
        self.lines_lost = 0
        """Audit lines that the gateway could not write; whose they were is not known."""

        self.interruptions = 0
        """How often the gateway's process that served it was lost, and with it what that had not written yet."""

        self._log = log.open("wb")
        self._size = 0
        self._dropped = 0
        self._restarts = False

    def restart_at_next_policy(self) -> None:
        """Count only what happens under the next policy. Lines of what was before are kept all the same.

        The gateway writes the change of a policy after everything that it has decided by the one before.
        """
        self._restarts = True

    def add(self, line: bytes, event: Event) -> None:
        """Count an event, and keep its line."""
        if self._restarts and isinstance(event, PolicyChanged):
            self._restarts, self.ledger = False, Ledger()
        self.ledger.write(None, event)
        if self._size + len(line) <= MAX_LOG_BYTES:
            self._size += len(line)
            self._log.write(line)
        else:
            self._dropped += 1
        if isinstance(event, SandboxInterrupted):
            self.interruptions += 1
        if isinstance(event, SandboxClosed):
            self.complete.set()

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def to_data(self) -> dict[str, Any]:
        """Return the sums as plain data."""
        ledger = self.ledger
        return {
            "complete": self.complete.is_set() and not self.lines_lost and not self.interruptions,
            "lines_not_kept": self._dropped,
            "lines_lost": self.lines_lost,
            "interruptions": self.interruptions,
            "reached": [{"destination": str(where), **asdict(sums)} for where, sums in ledger.reached.items()],
            "denied": [{"destination": str(where), **asdict(why)} for where, why in ledger.denied.items()],
            "failed": [{"destination": str(where), **asdict(why)} for where, why in ledger.failed.items()],
            "services": {name: asdict(sums) for name, sums in ledger.used.items()},
        }


class AuditReader:
    """Reads the gateway's audit lines. Lives on the loop's thread; ended by `close`."""

    def __init__(self) -> None:
        self._pipe, self.descriptor = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """`descriptor` is where the gateway writes."""

        with suppress(OSError):  # an ordinary user's share of pipe memory may be used up
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._partial = b""
        self._evidence: dict[str, NetworkEvidence] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pipe, self._read)

    def record(self, sandbox: str, log: Path) -> NetworkEvidence:
        """Begin to record what is seen of a sandbox that is about to be opened."""
        evidence = self._evidence[sandbox] = NetworkEvidence(log)
        return evidence

    async def finish(self, sandbox: str) -> None:
        """Wait for the last line of a sandbox that the gateway has closed, and close its file."""
        evidence = self._evidence[sandbox]
        with suppress(TimeoutError):
            await asyncio.wait_for(evidence.complete.wait(), _CLOSED_TIMEOUT)
        self.drop(sandbox)

    def drop(self, sandbox: str) -> None:
        """Record nothing more of a sandbox, and close its file."""
        self._evidence.pop(sandbox).close()

    def close(self) -> None:
        """Read what is left, and close the pipe."""
        self._loop.remove_reader(self._pipe)
        self._read()
        for evidence in self._evidence.values():
            evidence.close()
        os.close(self.descriptor)
        os.close(self._pipe)

    def _read(self) -> None:
        with suppress(BlockingIOError):
            *lines, self._partial = (self._partial + os.read(self._pipe, _PIPE_BYTES)).split(b"\n")
            for line in lines:
                try:
                    self._dispatch(line)
                except (ValueError, KeyError, TypeError):  # half a line of a worker that was killed, and another's
                    self._lose(1)

    def _dispatch(self, line: bytes) -> None:
        fields = json.loads(line)
        kind, sandbox = _KINDS[fields["event"]], fields["sandbox"]
        values = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in fields.items()
            if name not in COMMON_FIELDS
        }
        event = kind(**values)
        if isinstance(event, AuditLost) and sandbox is None:
            self._lose(event.lines)
        elif sandbox in self._evidence:
            self._evidence[sandbox].add(line + b"\n", event)

    def _lose(self, lines: int) -> None:
        for evidence in self._evidence.values():
            evidence.lines_lost += lines
