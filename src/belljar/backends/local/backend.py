"""The local backend: sandboxes of Linux namespaces that outlive the server that made them."""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from socket import socket
from threading import Lock
from typing import Any, Final, Self
from weakref import WeakValueDictionary

from belljar.backends.interface import (
    FILE_LIMIT,
    GoneError,
    LostError,
    PathError,
    PausedError,
    SandboxStatus,
    SpecError,
    State,
    Streams,
)
from belljar.backends.local import pausing
from belljar.backends.local.forker.client import ForkerProcess
from belljar.backends.local.forker.protocol import receive_answer
from belljar.backends.local.records import Record, Records
from belljar.backends.treestreams import archive_pipe
from belljar.gateway.listeners import Listeners
from belljar.linux.cgroups.limits import remove_soon
from belljar.linux.cgroups.memorykills import MemoryWatch
from belljar.linux.descriptors import adopt, is_readable
from belljar.linux.lives import has_ended
from belljar.sandbox.layers import Layer, Observations, layers
from belljar.sandbox.looking import look_at_process
from belljar.sandbox.spec import Command, SandboxSpec

_KILLED: Final = 137  # as shells report a program that SIGKILL has ended
_SECONDS_TO_END: Final = 20.0
_TREE_TIMEOUT: Final = 120.0
"""Seconds from the last byte of an archive to the answer: closing directories takes no longer."""

_REMEDY_FOR_USERS: Final = "see what `belljar doctor` says of user namespaces"


class LocalBackend:
    """A `Backend` whose sandboxes are those of one state directory. Only one server at a time can use it."""

    def __init__(self, state: Path) -> None:
        """Raises MachineError."""
        self._state, self._records = state, Records(state)
        self._forker = ForkerProcess(state)
        self._lock = Lock()
        self._locks: WeakValueDictionary[tuple[str, str], Lock] = WeakValueDictionary()
        self._unfinished: set[str] = set()

    def create(self, sandbox: str, spec: SandboxSpec) -> Listeners:
        """See `Backend`."""
        with self._one_at_a_time("life", sandbox):
            self._unfinished.add(sandbox)
            try:
                answer, descriptors, channel = self._ask("create", sandbox, spec)
            finally:
                self._unfinished.discard(sandbox)
        channel.close()
        return _listeners(answer, descriptors)

    def adopt(self, sandbox: str) -> Listeners:
        """See `Backend`."""
        answer, descriptors, channel = self._ask("adopt", sandbox)
        channel.close()
        return _listeners(answer, descriptors)

    def start(self, sandbox: str, command: Command, streams: Streams) -> "LocalProcess":
        """See `Backend`."""
        _check(command)
        with self._one_at_a_time("work", sandbox):
            record = self._alive(sandbox)
            if pausing.is_paused(record):
                raise PausedError(f"the sandbox {sandbox} is paused; resume it first")
            memory = MemoryWatch(map(Path, record.groups))
            _, _, channel = self._ask("start", sandbox, command, descriptors=streams)
        return LocalProcess(channel, memory)

    def put_file(self, sandbox: str, path: str, content: bytes, mode: int = 0o644) -> None:
        """See `Backend`."""
        if len(content) > FILE_LIMIT:
            raise PathError(f"{path} would have {len(content)} bytes, and {FILE_LIMIT} is the most")
        source = os.memfd_create("belljar")
        with os.fdopen(source, "wb") as file:
            file.write(content)
            file.flush()
            self._ask("put_file", sandbox, path, mode, descriptors=[source])[2].close()

    def get_file(self, sandbox: str, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See `Backend`."""
        _, descriptors, channel = self._ask("get_file", sandbox, path, limit)
        channel.close()
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            return file.read()

    def put_tree(self, sandbox: str, path: str, archive: int) -> None:
        """See `Backend`."""
        with archive_pipe() as pipe:
            channel = self._forker_here().request("put_tree", sandbox, path, descriptors=[pipe.receiving.fileno()])
            pipe.receiving.close()
            with channel:
                pipe.send(archive, channel.fileno())
                pipe.sending.close()
                channel.settimeout(_TREE_TIMEOUT)
                receive_answer(channel)

    def get_tree(self, sandbox: str, path: str, archive: int, *, names: Sequence[str] = (".",), limit: int) -> None:
        """See `Backend`."""
        with archive_pipe() as pipe:
            sending = [pipe.sending.fileno()]
            channel = self._forker_here().request("get_tree", sandbox, path, names, limit, descriptors=sending)
            pipe.sending.close()
            with channel:
                pipe.receive(archive, limit)
                channel.settimeout(_TREE_TIMEOUT)
                receive_answer(channel)

    def pause(self, sandbox: str) -> None:
        """See `Backend`."""
        with self._one_at_a_time("work", sandbox):
            pausing.pause(self._alive(sandbox), partial(self._send_all, sandbox))

    def resume(self, sandbox: str) -> None:
        """See `Backend`."""
        with self._one_at_a_time("work", sandbox):
            pausing.resume(self._alive(sandbox), partial(self._send_all, sandbox))

    def destroy(self, sandbox: str) -> None:
        """See `Backend`."""
        with self._one_at_a_time("life", sandbox):
            try:
                record = self._records.read(sandbox)
            except GoneError:
                if self._records.has(sandbox):
                    self._records.remove(sandbox)
                return
            _end(record)
            self._records.remove(sandbox)

    def sandboxes(self) -> list[SandboxStatus]:
        """See `Backend`."""
        return [
            SandboxStatus(name, self._state_of(name)) for name in self._records.names() if name not in self._unfinished
        ]

    def look(self, sandbox: str) -> tuple[Layer, ...]:
        """See `Inspectable`."""
        record = self._alive(sandbox)
        first = look_at_process(record.init.pid)
        network, _, channel = self._ask("look", sandbox)  # which fails if the process that was seen has ended
        channel.close()
        is_own = Path("/proc/self/ns/net").stat().st_ino != record.network
        return layers(Observations({"its first process": first}, network, is_own), _REMEDY_FOR_USERS)

    def close(self) -> None:
        """See `Backend`."""
        self._forker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _one_at_a_time(self, what: str, sandbox: str) -> Lock:
        """Return a lock, which is forgotten when nobody has it."""
        with self._lock:
            return self._locks.setdefault((what, sandbox), Lock())

    def _ask(self, task: str, *arguments: Any, descriptors: Any = ()) -> tuple[Any, list[int], socket]:
        return self._forker_here().ask(task, *arguments, descriptors=descriptors)

    def _forker_here(self) -> ForkerProcess:
        """Return the forker, or a new one if it was lost."""
        with self._lock:
            if self._forker.is_lost:
                self._forker.close()
                self._forker = ForkerProcess(self._state)
            return self._forker

    def _send_all(self, sandbox: str, number: int) -> None:
        self._ask("send_all", sandbox, number)[2].close()

    def _alive(self, sandbox: str) -> Record:
        record = self._records.read(sandbox)
        try:
            os.close(record.init.hold())
        except ProcessLookupError:
            raise GoneError(f"all processes of the sandbox {sandbox} have ended; destroy it") from None
        return record

    def _state_of(self, sandbox: str) -> State:
        try:
            return State.PAUSED if pausing.is_paused(self._alive(sandbox)) else State.RUNNING
        except (GoneError, LostError):
            return State.DEAD


class LocalProcess:
    """A `Process` that the forker watches."""

    def __init__(self, channel: socket, memory: MemoryWatch) -> None:
        self._channel, self._memory = channel, memory
        self._lock = Lock()
        self._code: int | None = None

    def fileno(self) -> int:
        """See `Process`."""
        return self._channel.fileno()

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        if self._code is None and not is_readable(self._channel.fileno(), timeout):
            raise TimeoutError("the command is still running")
        with self._lock:
            if self._code is None:
                self._code = self._receive_code()
            return self._code

    def _receive_code(self) -> int:
        try:
            code: int = receive_answer(self._channel)[0]
        except LostError:
            # Who watches a command inside shares its memory, and was killed in its place.
            if not self._memory.ran_out():
                raise
            return _KILLED
        return code

    def out_of_memory(self) -> bool:
        """See `Process`."""
        return self._memory.ran_out()

    def signal(self, number: int) -> None:
        """See `Process`."""
        with suppress(ConnectionError):  # it has ended
            self._channel.send(bytes([number]))

    def close(self) -> None:
        """See `Process`."""
        self._channel.close()


def _check(command: Command) -> None:
    words = (*command.arguments, *command.environment, *command.environment.values(), str(command.workdir or ""))
    if not command.arguments or not command.arguments[0]:
        raise SpecError("a command needs at least the name of a program")
    if any("\0" in word for word in words) or any("=" in name or not name for name in command.environment):
        raise SpecError("a command, its variables and its directory can have no NUL, and names no equals sign")


def _listeners(counts: dict[str, int], descriptors: list[int]) -> Listeners:
    sockets = map(adopt, descriptors)
    return Listeners(**{door: tuple(next(sockets) for _ in range(count)) for door, count in counts.items()})


def _end(record: Record) -> None:
    """End the process around the sandbox: the kernel ends all others before it is gone."""
    with suppress(ProcessLookupError):
        process = record.around.hold()
        try:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            if not has_ended(process, _SECONDS_TO_END):
                raise LostError("the sandbox's processes do not end; the kernel may be waiting for a disk")
        finally:
            os.close(process)
    if not remove_soon(map(Path, record.groups)):
        raise LostError(f"the sandbox's control groups cannot be removed: {', '.join(record.groups)}")
