"""Many sandboxes at once, and what they leave behind: processes, namespaces, mounts, control groups and files."""

import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from belljar.linux.lives import Life
from bench.fetching import MissingError
from bench.processes import family, memory
from tests.universe import Place

_PLACES = ("/run", "/tmp", "/var/tmp", "/dev/shm")


class Crowd:
    """Commands that are started together, say a word when they run, and are stopped together."""

    def __init__(self, place: Place, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        self._place, self._command, self._directory, self._environment = place, command, directory, environment
        self._before = _traces()
        self._commands: list[subprocess.Popen[bytes]] = []
        self._processes: list[Life] = []
        self._namespaces: set[str] = set()
        self._stopped = 0.0

    def start(self, size: int) -> float:
        """Start them, and return the seconds until all run. Raises MissingError."""
        started = time.perf_counter()
        self._commands = [self._place.call(self._popen) for _ in range(size)]
        for command in self._commands:
            if command.stdout is None or command.stdout.readline() != b"ready\n":
                raise MissingError("one of many sandboxes does not start")
        seconds = time.perf_counter() - started
        self._processes = [Life.of(process) for command in self._commands for process in family(command.pid)]
        outside = _namespaces_of(command.pid for command in self._commands)
        self._namespaces = _namespaces_of(process.pid for process in self._processes) - outside
        return seconds

    def memory(self) -> int:
        """Return what they use together."""
        return sum(memory(command.pid) for command in self._commands)

    def stop(self) -> float:
        """Ask them to end, and return the seconds until all have."""
        started = time.perf_counter()
        self._stopped = time.clock_gettime(time.CLOCK_BOOTTIME)
        for command in self._commands:
            command.terminate()
        for command in self._commands:
            command.communicate()
        return time.perf_counter() - started

    def survivors(self) -> list[int]:
        """Return their processes that have not ended."""
        return [process.pid for process in self._processes if _lives(process)]

    def left_behind(self) -> list[str]:
        """Return everything that is still there of them, provided that nobody else runs sandboxes meanwhile."""
        older = (life.pid for life in _everybody() if life.started < self._stopped * os.sysconf("SC_CLK_TCK"))
        inhabited = self._namespaces & _namespaces_of(older)  # a younger one may live in a new one of the same number
        return [*map(str, self.survivors()), *sorted(inhabited), *sorted(_traces() - self._before)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for command in self._commands:
            if command.poll() is None:
                command.kill()
                command.communicate()

    def _popen(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._command,
            cwd=self._directory,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )


def _everybody() -> Iterator[Life]:
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(ProcessLookupError):  # it has ended by now
                yield Life.of(int(path.name))


def _lives(process: Life) -> bool:
    try:
        return Life.of(process.pid) == process
    except ProcessLookupError:
        return False


def _namespaces_of(processes: Iterable[int]) -> set[str]:
    found = set()
    for process in processes:
        with suppress(OSError):  # it has ended by now
            found |= {str(path.readlink()) for path in Path(f"/proc/{process}/ns").iterdir()}
    return found


def _traces() -> set[str]:
    """Return mounts, control groups, and files of Belljar's in places that everybody can write to."""
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    groups = {str(path) for path in Path("/sys/fs/cgroup").rglob("belljar*")}
    files = {str(path) for place in _PLACES for path in Path(place).glob("belljar*")}
    return mounts | groups | files
