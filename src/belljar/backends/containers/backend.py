"""Sandboxes that are containers, made, sealed and ended through the API of Docker or Podman."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, Self

from belljar.backends.containers.engine.client import Engine, EngineError
from belljar.backends.containers.engine.images import Image, find_image
from belljar.backends.containers.exec.files import OK
from belljar.backends.containers.exec.inside import Inside
from belljar.backends.containers.exec.process import ContainerProcess
from belljar.backends.containers.inventory import SANDBOX, Containers, state_of
from belljar.backends.containers.layers import layers_of, looking
from belljar.backends.containers.making import ContainerMaker
from belljar.backends.containers.records import ContainerRecords
from belljar.backends.containers.toolbox import open_toolbox
from belljar.backends.interface import (
    FILE_LIMIT,
    GoneError,
    LostError,
    MachineError,
    PathError,
    PausedError,
    SandboxStatus,
    SpecError,
    State,
    Streams,
    is_name,
)
from belljar.errors import printable
from belljar.gateway.listeners import Listeners
from belljar.sandbox.layers import Layer
from belljar.sandbox.spec import Command, SandboxSpec

_NO_LABELS: Final[Mapping[str, str]] = {}


class ContainerBackend:
    """A `Backend` whose sandboxes are containers of one engine, and of one owner."""

    def __init__(
        self, engine: Engine, state: Path, cache: Path, owner: str | None = None, labels: Mapping[str, str] = _NO_LABELS
    ) -> None:
        """Have an owner, who is that of the state directory by default, and labels for all containers.

        Raises MachineError.
        """
        self._engine = engine
        self._records = ContainerRecords(state.resolve())
        self._toolbox = open_toolbox(cache.resolve())
        self._containers = Containers(engine, owner or self._records.owner(), labels)
        self._inside = Inside(self._containers, self._records, self._toolbox)
        self._maker = ContainerMaker(self._containers, self._records, self._toolbox, self._inside)
        self._lock = Lock()
        self._unfinished: set[str] = set()

    def create(self, sandbox: str, spec: SandboxSpec) -> Listeners:
        """See `Backend`."""
        if not is_name(sandbox):
            raise SpecError(f"a sandbox cannot be called {sandbox!a}; use up to 64 letters, digits, - and _")
        self._refuse_our_own(spec)
        image = self.image_of(spec)
        with self._lock:
            if sandbox in self._unfinished or self._records.has(sandbox):
                raise SpecError(f"there is a sandbox {sandbox} already; choose another name")
            self._unfinished.add(sandbox)
        try:
            with self._containers.asking(sandbox):
                return self._maker.make(sandbox, spec, image)
        except BaseException:
            with suppress(LostError):
                self.destroy(sandbox)
            raise
        finally:
            self._unfinished.discard(sandbox)

    def adopt(self, sandbox: str) -> Listeners:
        """See `Backend`."""
        with self._containers.asking(sandbox):
            return self._maker.close_again(sandbox)

    def start(self, sandbox: str, command: Command, streams: Streams) -> ContainerProcess:
        """See `Backend`."""
        with self._containers.asking(sandbox):
            found = self._containers.inspect(sandbox)
            if state_of(found) is State.PAUSED:
                raise PausedError(f"the sandbox {sandbox} is paused; resume it first")
            return self._inside.start(sandbox, found, command, streams)

    def continue_command(self, sandbox: str, process: ContainerProcess, *, foreground: bool) -> None:
        """Have a command that was stopped go on, with its terminal or without. Raises GoneError, LostError."""
        monitor = process.number_inside()
        if monitor is not None:
            self._inside.continue_monitor(sandbox, monitor, foreground=foreground)

    def is_left_keys(self, sandbox: str, process: ContainerProcess) -> bool:
        """Tell whether a command's terminal, and no program, makes something of Ctrl-C. Raises GoneError, LostError."""
        monitor = process.number_inside()
        with self._containers.asking(sandbox):
            found = self._containers.inspect(sandbox)
        return monitor is not None and self._inside.is_left_keys(sandbox, found, monitor)

    def put_file(self, sandbox: str, path: str, content: bytes, mode: int = 0o644) -> None:
        """See `Backend`."""
        if len(content) > FILE_LIMIT:
            raise PathError(f"{path} would have {len(content)} bytes, and {FILE_LIMIT} is the most")
        said = self._inside.have_file(sandbox, content, "put", path, str(mode & 0o777))
        if said != OK + b"\n":
            raise PathError(f"{path} cannot be written inside: {printable(said.decode(errors='replace').strip())}")

    def get_file(self, sandbox: str, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See `Backend`."""
        said, _, content = self._inside.have_file(sandbox, b"", "get", path, str(limit)).partition(b"\n")
        if said != OK:
            raise PathError(f"{path} cannot be read inside: {printable(said.decode(errors='replace'))}")
        return content

    def put_tree(self, sandbox: str, path: str, archive: int) -> None:
        """See `Backend`."""
        self._inside.put_tree(sandbox, path, archive)

    def get_tree(self, sandbox: str, path: str, archive: int, *, names: Sequence[str] = (".",), limit: int) -> None:
        """See `Backend`."""
        self._inside.get_tree(sandbox, path, archive, names, limit)

    def pause(self, sandbox: str) -> None:
        """See `Backend`."""
        self._become(sandbox, State.PAUSED, "pause")

    def resume(self, sandbox: str) -> None:
        """See `Backend`."""
        self._become(sandbox, State.RUNNING, "unpause")

    def destroy(self, sandbox: str) -> None:
        """See `Backend`."""
        if not is_name(sandbox):
            return
        with suppress(GoneError), self._containers.asking(sandbox):
            self._containers.remove(sandbox)
        with self._containers.asking(sandbox):
            self._maker.perimeter.remove(self._containers.name(sandbox))
        self._records.remove(sandbox)

    def sandboxes(self) -> list[SandboxStatus]:
        """See `Backend`."""
        with self._containers.asking(""):
            found = self._containers.states()
            networks = [labels[SANDBOX] for labels in self._maker.perimeter.labelled()]
        left = {name: State.DEAD for name in (*self._records.names(), *networks) if name not in found}
        return [SandboxStatus(name, state) for name, state in (found | left).items() if name not in self._unfinished]

    def look(self, sandbox: str) -> tuple[Layer, ...]:
        """See `Inspectable`."""
        with self._containers.asking(sandbox):
            found = self._containers.inspect(sandbox)
        told = self._inside.ask(sandbox, found, looking(self._inside.toolbox(sandbox)))
        return layers_of(self._engine.kind, found, told)

    def close(self) -> None:
        """See `Backend`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def image_of(self, spec: SandboxSpec) -> Image:
        """Return what the image of a sandbox says of itself. Raises SpecError, LostError."""
        if spec.image is None:
            raise SpecError(f"{self._engine.kind} runs images; name one with --image")
        with self._containers.asking(""):
            return find_image(self._engine, spec.image)

    def began(self, sandbox: str) -> str:
        """Tell when a container has begun, as the engine writes it, and nothing if it has ended.

        Of one that somebody else has started again it is another time. Raises LostError.
        """
        with suppress(GoneError), self._containers.asking(sandbox):
            state = self._containers.inspect(sandbox)["State"]
            return str(state["StartedAt"]) if state["Running"] else ""
        return ""

    def _refuse_our_own(self, spec: SandboxSpec) -> None:
        """Refuse to show what this or another sandbox is made of. Raises SpecError."""
        for shown in (spec.workdir, *(bind.source for bind in spec.binds)):
            for ours in (self._records.state, self._toolbox.directory.parent):
                if shown is not None and (shown.is_relative_to(ours) or ours.is_relative_to(shown)):
                    raise SpecError(f"{shown} has to do with what all sandboxes are made of, in {ours}; show another")

    def _become(self, sandbox: str, state: State, task: str) -> None:
        with self._containers.asking(sandbox):
            now = state_of(self._containers.inspect(sandbox))
            if now is State.DEAD:
                raise GoneError(f"all processes of the sandbox {sandbox} have ended; destroy it")
            if now is not state:
                try:
                    self._engine.post(f"{self._containers.path(sandbox)}/{task}")
                except EngineError as error:
                    raise MachineError(f"{self._engine.kind} cannot {task} a container here: {error}") from error
