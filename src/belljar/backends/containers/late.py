"""A backend whose engine may come later, or go: for servers, which live longer than engines do.

It is opened when it is first needed. What it has never made it need not ask an engine about; so a server without any
engine serves those sandboxes that need none.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.locate import find_engine
from belljar.backends.containers.engine.places import Kind
from belljar.backends.containers.exec.process import ContainerProcess
from belljar.backends.containers.records import recorded
from belljar.backends.containers.toolbox import default_cache
from belljar.backends.interface import FILE_LIMIT, LostError, SandboxStatus, Streams
from belljar.gateway.listeners import Listeners
from belljar.sandbox.layers import Layer
from belljar.sandbox.spec import Command, SandboxSpec


class LateBackend:
    """A `Backend` that is a `ContainerBackend` once there is an engine. Until then, methods raise MachineError."""

    def __init__(self, kind: Kind, state: Path, environment: Mapping[str, str]) -> None:
        """The environment says where engines are; the state directory is made when it is needed."""
        self._kind, self._state, self._environment = kind, state, environment
        self._lock = Lock()
        self._opened: ContainerBackend | None = None

    def create(self, sandbox: str, spec: SandboxSpec) -> Listeners:
        """See `Backend`."""
        with self._backend() as backend:
            return backend.create(sandbox, spec)

    def adopt(self, sandbox: str) -> Listeners:
        """See `Backend`."""
        with self._backend() as backend:
            return backend.adopt(sandbox)

    def start(self, sandbox: str, command: Command, streams: Streams) -> ContainerProcess:
        """See `Backend`."""
        with self._backend() as backend:
            return backend.start(sandbox, command, streams)

    def put_file(self, sandbox: str, path: str, content: bytes, mode: int = 0o644) -> None:
        """See `Backend`."""
        with self._backend() as backend:
            backend.put_file(sandbox, path, content, mode)

    def get_file(self, sandbox: str, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See `Backend`."""
        with self._backend() as backend:
            return backend.get_file(sandbox, path, limit)

    def put_tree(self, sandbox: str, path: str, archive: int) -> None:
        """See `Backend`."""
        with self._backend() as backend:
            backend.put_tree(sandbox, path, archive)

    def get_tree(self, sandbox: str, path: str, archive: int, *, names: Sequence[str] = (".",), limit: int) -> None:
        """See `Backend`."""
        with self._backend() as backend:
            backend.get_tree(sandbox, path, archive, names=names, limit=limit)

    def pause(self, sandbox: str) -> None:
        """See `Backend`."""
        with self._backend() as backend:
            backend.pause(sandbox)

    def resume(self, sandbox: str) -> None:
        """See `Backend`."""
        with self._backend() as backend:
            backend.resume(sandbox)

    def destroy(self, sandbox: str) -> None:
        """See `Backend`."""
        if sandbox in recorded(self._state):
            with self._backend() as backend:
                backend.destroy(sandbox)

    def sandboxes(self) -> list[SandboxStatus]:
        """See `Backend`."""
        if not recorded(self._state):
            return []
        with self._backend() as backend:
            return backend.sandboxes()

    def look(self, sandbox: str) -> tuple[Layer, ...]:
        """See `Inspectable`."""
        with self._backend() as backend:
            return backend.look(sandbox)

    def close(self) -> None:
        """See `Backend`."""
        if self._opened is not None:
            self._opened.close()

    @contextmanager
    def _backend(self) -> Iterator[ContainerBackend]:
        with self._lock:
            if self._opened is None:
                engine = find_engine(self._kind, self._environment)
                self._opened = ContainerBackend(engine, self._state, default_cache(self._environment))
        try:
            yield self._opened
        except LostError:
            find_engine(self._kind, self._environment)  # if it is gone, this says what brings it back
            raise
