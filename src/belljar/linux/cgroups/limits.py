"""Limits on processor time and memory, through control groups of either version.

Theory of operation
-------------------
A group is made as near to the caller's own as the kernel lets us: in version 1 below it, in each controller's own
hierarchy; in version 2 below the nearest ancestor that hands the controllers down to its children, since a group with
processes in it cannot. An ordinary user can do that where the system has delegated a part of the tree, as systemd does.

A group outlives its processes, and whoever made it may be killed. So a watchman, a process that does nothing else,
waits for the end of its maker and of the group's processes, and takes the group away. A maker whose command has ended
releases the group as soon as its processes have ended, and exits after the watchman, so that no process of a run
outlives it. Removing a group takes the kernel about a millisecond, in which the maker closes what else it has open.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from belljar.linux.descriptors import is_readable

PREFIX: Final = "belljar-"
JOINED: Final = "joined"

_MOUNTED: Final = Path("/sys/fs/cgroup")
_PERIOD: Final = 100_000  # microseconds
_LINE_PARTS: Final = 3
_WATCH_PAUSES: Final = (0.001, 0.002, 0.005, 0.01)
_LAST_WATCH_PAUSE: Final = 0.02
_REMOVE_SECONDS: Final = 5.0
_REMOVE_PAUSE: Final = 0.001
_MOST_DESCRIPTORS: Final = 1 << 20


class NoControllerError(Exception):
    """A limit was asked for that nobody here can enforce."""


class _Hierarchy(NamedTuple):
    """Where groups with a controller can be made."""

    directory: Path
    version: int


class Group:
    """A control group of our own, for as long as its maker and its processes live."""

    def __init__(self, *, cpus: float | None, memory_bytes: int | None, name: str | None = None) -> None:
        """Make a group with limits; without a name, the caller's only one. Raises NoControllerError."""
        wanted = {"cpu": cpus is not None, "memory": memory_bytes is not None}
        # Processes of different PID namespaces may have the same number, and see the same control groups.
        self._name = f"{PREFIX}{name or f'{os.getpid()}-{os.urandom(4).hex()}'}"
        self._directories: dict[str, Path] = {}
        self._watchman = 0
        self._alive = -1
        """Our end of a pipe; the watchman removes the group when it is closed."""

        try:
            for controller in (name for name, is_wanted in wanted.items() if is_wanted):
                self._make(controller, cpus, memory_bytes)
        except OSError as error:
            self.remove()
            raise NoControllerError(str(error)) from error

    def _make(self, controller: str, cpus: float | None, memory_bytes: int | None) -> None:
        place = _place_for(controller)
        directory = place.directory / self._name
        directory.mkdir(exist_ok=True)  # in version 2, both controllers share one
        self._directories[controller] = directory
        if controller == "cpu" and cpus is not None:
            quota = max(1000, round(cpus * _PERIOD))
            if place.version == 2:
                (directory / "cpu.max").write_text(f"{quota} {_PERIOD}")
            else:
                (directory / "cpu.cfs_period_us").write_text(str(_PERIOD))
                (directory / "cpu.cfs_quota_us").write_text(str(quota))
        elif memory_bytes is not None:
            name = "memory.max" if place.version == 2 else "memory.limit_in_bytes"
            (directory / name).write_text(str(memory_bytes))
            _keep_from_swap(directory, memory_bytes)

    @property
    def directories(self) -> set[Path]:
        """Where the kernel shows it."""
        return set(self._directories.values())

    def watch(self, process: int) -> int:
        """Start the watchman, who puts a process into the group first: the kernel takes its time for that.

        Returns a descriptor from which JOINED is read once it is done, or else why it could not be done. For a process
        without threads.
        """
        ours, self._alive = os.pipe()
        done, telling = os.pipe()
        self._watchman = os.fork()
        if self._watchman == 0:
            self._stand_watch(ours, process, telling)
        os.close(telling)
        os.close(ours)  # the other end stays open until the group is released, or we are no more
        return done

    def release(self) -> None:
        """Let the watchman remove the group as soon as no process is left in it."""
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    def wait_for_removal(self) -> None:
        """Release the group and wait until the watchman has exited; give up after a while."""
        self.release()
        if self._watchman:
            watchman = os.pidfd_open(self._watchman)
            if is_readable(watchman, _REMOVE_SECONDS):
                os.waitpid(self._watchman, 0)
            os.close(watchman)
            self._watchman = 0

    def _stand_watch(self, maker: int, process: int, telling: int) -> None:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            try:
                add(self.directories, process)
                os.write(telling, JOINED.encode())
            except OSError as error:
                os.write(telling, str(error).encode())
            os.closerange(0, maker)  # whatever we kept open, somebody would wait for its end in vain
            os.closerange(maker + 1, _MOST_DESCRIPTORS)
            os.read(maker, 1)
            pauses = iter(_WATCH_PAUSES)
            while not self.remove():
                time.sleep(next(pauses, _LAST_WATCH_PAUSE))
        finally:
            os._exit(0)

    def remove(self) -> bool:
        """Take the group away if nobody is in it; tell whether it is gone."""
        return remove(self.directories)


def _keep_from_swap(directory: Path, memory_bytes: int) -> None:
    """Have swap, where there is any, be no way around a limit. In version 1, it is counted with the memory."""
    for name, value in {"memory.swap.max": 0, "memory.memsw.limit_in_bytes": memory_bytes}.items():
        if (directory / name).exists():
            (directory / name).write_text(str(value))


def add(directories: Iterable[Path], process: int) -> None:
    """Put a process into groups, and with it all it starts from now on; 0 is the caller. Raises OSError."""
    for directory in directories:
        (directory / "cgroup.procs").write_text(str(process))


def remove(directories: Iterable[Path]) -> bool:
    """Take a group away if nobody is in it; tell whether it is gone."""
    for directory in directories:
        try:
            directory.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True


def remove_soon(directories: Iterable[Path]) -> bool:
    """Take groups away as soon as the kernel has done with their processes, which have ended; tell whether they are."""
    places, deadline = list(directories), time.monotonic() + _REMOVE_SECONDS
    while not remove(places):
        if time.monotonic() > deadline:
            return False
        time.sleep(_REMOVE_PAUSE)
    return True


def _place_for(controller: str) -> _Hierarchy:
    own = _groups_of("self")
    if controller in own:
        return _writable(controller, [_MOUNTED / controller / own[controller].lstrip("/")], 1)
    nearest = own_place()
    if nearest is not None:
        ancestors = (nearest, *nearest.parents)
        return _writable(controller, [path for path in ancestors if _hands_down(path, controller)], 2)
    raise NoControllerError(f"the kernel has no {controller} controller here")


def own_place() -> Path | None:
    """Return the caller's own group of version 2."""
    return _place_v2(_groups_of("self"))


def place_of(process: int, controller: str) -> Path | None:
    """Return the group in which a process meets a controller; None where we cannot see it."""
    try:
        groups = _groups_of(process)
    except OSError:
        return None
    if controller in groups:
        return _MOUNTED / controller / groups[controller].lstrip("/")
    return _place_v2(groups)


def memory_limits() -> list[int]:
    """Return the limits on memory of the caller's group and of those around it, as far as we can see them."""
    place = place_of(os.getpid(), "memory")
    limits: list[int] = []
    while place is not None and place != _MOUNTED.parent:
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # "max" is none
                limits.append(int((place / name).read_text()))
        place = place.parent
    return limits


def _place_v2(groups: dict[str, str]) -> Path | None:
    group = groups.get("")
    root = next((path for path in (_MOUNTED, _MOUNTED / "unified") if _is_v2(path)), None)
    return root / group.lstrip("/") if group is not None and root is not None else None


def _groups_of(process: int | str) -> dict[str, str]:
    """Return the group of a process in each controller's hierarchy; version 2 has the empty name."""
    lines = (line.split(":", 2) for line in Path(f"/proc/{process}/cgroup").read_text().splitlines())
    return {name: parts[2] for parts in lines if len(parts) == _LINE_PARTS for name in parts[1].split(",")}


def _writable(controller: str, candidates: list[Path], version: int) -> _Hierarchy:
    for path in candidates:
        if os.access(path, os.W_OK) and os.access(path / "cgroup.procs", os.W_OK):
            return _Hierarchy(path, version)
    raise NoControllerError(f"the {controller} controller is not delegated to this user")


def _is_v2(path: Path) -> bool:
    return (path / "cgroup.controllers").exists()


def _hands_down(path: Path, controller: str) -> bool:
    with suppress(OSError):
        return controller in (path / "cgroup.subtree_control").read_text().split()
    return False
