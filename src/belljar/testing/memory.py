"""A backend without processes, for tests of what stands on backends.

Its sandboxes are entries in a `MemoryWorld`, which outlives the backends that look at it as the machine outlives a
server. Their files are a dictionary, their programs are Python functions, and their doors are real sockets that lead
nowhere.
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Self

from belljar.backends.interface import (
    FILE_LIMIT,
    GoneError,
    PathError,
    PausedError,
    SandboxStatus,
    SpecError,
    State,
    Streams,
    is_name,
)
from belljar.gateway.attachment import Attachment
from belljar.gateway.listeners import Listeners
from belljar.sandbox.spec import Command, SandboxSpec
from belljar.sandbox.trees.archive import TreeError
from belljar.sandbox.trees.packing import pack
from belljar.sandbox.trees.unpacking import unpack
from belljar.testing.memoryprocess import (
    KILLED,
    PROGRAMS,
    MemoryProcess,
    MemorySandbox,
    Program,
    no_such_program,
)


class MemoryWorld:
    """What there is: sandboxes, and the programs that they all have. A test may add its own."""

    def __init__(self) -> None:
        self.sandboxes: dict[str, MemorySandbox] = {}
        self.programs: dict[str, Program] = dict(PROGRAMS)


class MemoryBackend:
    """A `Backend` that looks at a world."""

    def __init__(self, world: MemoryWorld) -> None:
        self._world = world
        self._lock = Lock()

    def create(self, sandbox: str, spec: SandboxSpec) -> Attachment:
        """See `Backend`."""
        with self._lock:
            if sandbox in self._world.sandboxes or not is_name(sandbox):
                raise SpecError(f'"{sandbox}" cannot be the name, or is taken; choose another')
            made = self._world.sandboxes[sandbox] = MemorySandbox(spec)
        made.files.update({str(path): content for path, content in spec.files.items()})
        made.goes_on.set()
        return self.attach(sandbox, _doors(made))

    def adopt(self, sandbox: str) -> Attachment:
        """See `Backend`."""
        return self.attach(sandbox, _doors(self._alive(sandbox)))

    def attach(self, sandbox: str, doors: Listeners) -> Attachment:  # noqa: ARG002 - for those that do it otherwise
        """Say how a sandbox is attached to a gateway."""
        return doors

    def start(self, sandbox: str, command: Command, streams: Streams) -> MemoryProcess:
        """See `Backend`."""
        inside = self._alive(sandbox)
        if not inside.goes_on.is_set():
            raise PausedError(f"the sandbox {sandbox} is paused; resume it first")
        if not command.arguments or any("\0" in word for word in command.arguments):
            raise SpecError("a command needs the name of a program, and words without a NUL")
        program = self._world.programs.get(command.arguments[0], no_such_program)
        process = MemoryProcess(inside, command, Streams(*map(os.dup, streams)), program)
        inside.commands.append(process)
        return process

    def put_file(self, sandbox: str, path: str, content: bytes, mode: int = 0o644) -> None:  # noqa: ARG002 - no rights
        """See `Backend`."""
        inside = self._alive(sandbox)
        name = _absolute(inside, path)
        if len(content) > FILE_LIMIT or PurePosixPath(name) in _directories(inside) or name.startswith("/usr/"):
            raise PathError(f"{path} cannot be written inside")
        inside.files[name] = content

    def get_file(self, sandbox: str, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See `Backend`."""
        inside = self._alive(sandbox)
        content = inside.files.get(_absolute(inside, path))
        if content is None or len(content) > limit:
            raise PathError(f"{path} is not there, or has more than {limit} bytes")
        return content

    def put_tree(self, sandbox: str, path: str, archive: int) -> None:
        """See `Backend`."""
        inside = self._alive(sandbox)
        place = _absolute(inside, path)
        if place in inside.files:
            raise PathError(f"{path} cannot be unpacked inside: it is a file")
        with _packing(), TemporaryDirectory() as directory, open(archive, "rb", closefd=False) as source:
            unpack(directory, source)
            for file in Path(directory).rglob("*"):
                if file.is_file() and not file.is_symlink():
                    inside.files[f"{place}/{file.relative_to(directory)}"] = file.read_bytes()

    def get_tree(self, sandbox: str, path: str, archive: int, *, names: Sequence[str] = (".",), limit: int) -> None:
        """See `Backend`."""
        inside = self._alive(sandbox)
        place = PurePosixPath(_absolute(inside, path))
        found = {name: content for name, content in inside.files.items() if place in PurePosixPath(name).parents}
        if not found and str(place) != str(inside.workdir):
            raise PathError(f"{path} cannot be packed inside: it is not there")
        with _packing(), TemporaryDirectory() as directory, open(archive, "wb", closefd=False) as target:
            for name, content in found.items():
                file = Path(directory) / PurePosixPath(name).relative_to(place)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            pack(directory, names, limit, target)

    def pause(self, sandbox: str) -> None:
        """See `Backend`."""
        self._alive(sandbox).goes_on.clear()

    def resume(self, sandbox: str) -> None:
        """See `Backend`."""
        self._alive(sandbox).goes_on.set()

    def destroy(self, sandbox: str) -> None:
        """See `Backend`."""
        with self._lock:
            ended = self._world.sandboxes.pop(sandbox, None)
        if ended is not None:
            for process in ended.commands:
                process.signal(KILLED)
            ended.goes_on.set()

    def sandboxes(self) -> list[SandboxStatus]:
        """See `Backend`."""
        return [SandboxStatus(name, _state(inside)) for name, inside in sorted(self._world.sandboxes.items())]

    def close(self) -> None:
        """See `Backend`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _alive(self, sandbox: str) -> MemorySandbox:
        found = self._world.sandboxes.get(sandbox)
        if found is None or found.is_dead:
            raise GoneError(f"there is no sandbox {sandbox}, or it has ended")
        return found


@contextmanager
def _packing() -> Iterator[None]:
    try:
        yield
    except (TreeError, OSError) as error:
        raise PathError(f"the tree cannot be packed or unpacked: {error}") from error


def _doors(inside: MemorySandbox) -> Listeners:
    def both(kind: int) -> tuple[socket.socket, ...]:
        return tuple(_bound(family, kind) for family in (socket.AF_INET, socket.AF_INET6))

    stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
    doors = Listeners(both(stream), both(datagram), both(stream), both(stream), both(stream), (), ())
    inside.doors = {name: group[0].getsockname() for name, group in doors.groups().items() if group}
    return doors


def _bound(family: int, kind: int) -> socket.socket:
    door = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    door.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
    if kind == socket.SOCK_STREAM:
        door.listen()
    return door


def _state(inside: MemorySandbox) -> State:
    if inside.is_dead:
        return State.DEAD
    return State.RUNNING if inside.goes_on.is_set() else State.PAUSED


def _absolute(inside: MemorySandbox, path: str) -> str:
    if "\0" in path:
        raise PathError("a path with a NUL in it names no file")
    return os.path.normpath(inside.workdir / path)


def _directories(inside: MemorySandbox) -> Iterator[PurePosixPath]:
    for path in inside.files:
        yield from PurePosixPath(path).parents
