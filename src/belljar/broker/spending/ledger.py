"""What has been used so far, written down as it is used: a broker that is killed resets no budget.

The file has a line for each addition. It is read when a broker starts, and written anew with a line for each key; and
so it is when it has become long. A line that a crash has cut off is left out: what it says had not been counted.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final, NamedTuple

Key = tuple[str, ...]
"""``("sandbox", its name, the service)`` or ``("group", its name)``."""

NAME: Final = "budgets.jsonl"
_LOCK: Final = "budgets.lock"
_LINES_BETWEEN: Final = 50_000
_MADE_HERE: Final = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Amounts(NamedTuple):
    """How much has been used. Field names are those of a budget."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    bytes: int = 0

    def plus(self, more: "Amounts") -> "Amounts":
        """Return the sum."""
        return Amounts(
            self.requests + more.requests,
            self.input_tokens + more.input_tokens,
            self.output_tokens + more.output_tokens,
            self.dollars + more.dollars,
            self.bytes + more.bytes,
        )

    def minus(self, less: "Amounts") -> "Amounts":
        """Return the difference."""
        return self.plus(Amounts(-less.requests, -less.input_tokens, -less.output_tokens, -less.dollars, -less.bytes))


class SpendingLedger:
    """The file, and what it adds up to. There is one broker for a directory at a time; a second one waits."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / NAME
        self._lock = os.open(directory / _LOCK, os.O_RDWR | _MADE_HERE, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._used = dict[Key, Amounts]()
        for key, more in _lines(self._path):
            self._used[key] = self.used(key).plus(more)
        self._file = self._write_anew()

    def used(self, key: Key) -> Amounts:
        """Return how much has been used."""
        return self._used.get(key, Amounts())

    def held(self) -> AbstractContextManager[None]:
        """Return a context in which no other broker counts, for a decision by what was used."""
        return nullcontext()

    def everything(self) -> list[tuple[Key, Amounts]]:
        """Return what was used by everyone."""
        return list(self._used.items())

    def add(self, key: Key, more: Amounts) -> None:
        """Count, and write it down."""
        if not any(more):
            return
        self._used[key] = self.used(key).plus(more)
        os.write(self._file, _line(key, more))
        self._written += 1
        if self._written > _LINES_BETWEEN + len(self._used):
            before, self._file = self._file, self._write_anew()  # which may fail, and then nothing is closed
            os.close(before)

    def close(self) -> None:
        """Let another broker have the directory."""
        os.close(self._file)
        os.close(self._lock)

    def _write_anew(self) -> int:
        new = self._path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_TRUNC | os.O_APPEND | _MADE_HERE, 0o600)
        try:
            with os.fdopen(os.dup(file), "wb") as stream:
                stream.writelines(_line(key, used) for key, used in self._used.items())
            new.rename(self._path)
        except OSError:
            os.close(file)
            raise
        self._written = len(self._used)
        return file


def _line(key: Key, more: Amounts) -> bytes:
    counts = {name: count for name, count in more._asdict().items() if count}
    return json.dumps({"key": key, **counts}, separators=(",", ":")).encode() + b"\n"


def _lines(path: Path) -> Iterator[tuple[Key, Amounts]]:
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        return
    with stream:
        for line in stream:
            try:
                data: dict[str, Any] = json.loads(line)
                yield tuple(data.pop("key")), Amounts(**data)
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
