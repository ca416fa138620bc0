"""A sandbox that is a container of a real engine.

Two processes take part, as they do wherever a gateway serves containers. The *maker* uses the backend, with the rights
that the caller has; so it is there before the world is, for which the caller may become root of a user namespace, where
users have other numbers. The *gateway* is on the world's host, and is passed the sandbox's doors.
"""

import io
import os
import signal
import socket
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.engine.images import import_image
from belljar.backends.interface import Streams
from belljar.gateway.io.loop import Loop
from belljar.gateway.listeners import Listeners
from belljar.linux.descriptors import receive_sockets, send_sockets
from belljar.linux.processes import get_signal_when_parent_dies
from belljar.sandbox.files.workdirs import SYSTEM
from belljar.sandbox.serving import serve
from belljar.sandbox.spec import Bind, Command, SandboxSpec
from belljar.verify.bundle import interpreter
from belljar.verify.internet.world import World
from belljar.verify.trial import BUNDLE, SECONDS, TrialTask, files

_OPEN: Final = b"open"


class ContainerTrial:
    """A `Trial` of the container backend."""

    def __init__(self, task: TrialTask, engine: Engine, cache: Path) -> None:
        """Begin to make the sandbox."""
        self._task, self._engine, self._cache = task, engine, cache
        self.maker: int | None = None
        self.channel, self._end = socket.socketpair()
        self._doors, doors = socket.socketpair()
        self._maker = task.fork(lambda: self._make(doors), self._end)
        self._gateway = -1
        doors.close()

    def start(self, world: World) -> None:
        """See `Trial`."""
        self._gateway = self._task.fork(lambda: self._serve(world), self._end)
        self._end.close()
        self._doors.close()

    def finish(self) -> None:
        """See `Trial`."""
        for side in (self.channel, self._end, self._doors):
            side.close()
        for process in (self._maker, self._gateway):
            if process > 0:
                os.waitpid(process, 0)

    def _make(self, doors: socket.socket) -> None:
        """Make the sandbox, run the probes in it once its doors are answered, and take it away.

        Whoever started us may be gone at any time: then the channel has ended, and with it all that waits for it.
        """
        self.channel.close()
        self._doors.close()
        with (
            _empty_image(self._engine, f"{self._task.run}-{self._task.name}") as image,
            tempfile.TemporaryDirectory(prefix="belljar-verify-") as state,
            ContainerBackend(self._engine, Path(state), self._cache) as backend,
        ):
            try:
                self._run(backend, image, doors)
            finally:
                backend.destroy(self._task.name)

    def _run(self, backend: ContainerBackend, image: str, doors: socket.socket) -> None:
        name, python = self._task.name, interpreter()
        listeners = backend.create(name, self._spec(image, python.binds))
        send_sockets(doors, listeners.groups())
        listeners.close()
        if doors.recv(len(_OPEN)):
            streams = Streams(self._end.fileno(), self._end.fileno(), 2)
            backend.start(name, Command((*python.words, "-I", str(BUNDLE))), streams).wait(SECONDS)

    def _spec(self, image: str, binds: tuple[Bind, ...]) -> SandboxSpec:
        """Return a sandbox with the host's programs, so that the probes have what they have in a local one.

        But not its configuration: to be root inside means to be root outside for the engine of the machine's root, and
        files that only root may read are an image's own.
        """
        system = (Path(place) for place in SYSTEM if place != "/etc" and Path(place).is_dir())
        return SandboxSpec(
            image=image,
            workdir=self._task.workdir,
            environment={"PATH": "/usr/bin:/bin"},
            binds=(*(Bind(path.resolve(), path, writable=False) for path in system), *binds, *self._task.binds),
            files=files(),
        )

    def _serve(self, world: World) -> None:
        get_signal_when_parent_dies(signal.SIGKILL)
        self.channel.close()
        try:
            listeners = Listeners(**receive_sockets(self._doors))
        except EOFError:
            return  # the maker has said why
        world.host.enter()
        loop = Loop()
        gateway = serve(loop, self._task.network(), listeners)
        loop.watch(self._doors).on_readable = loop.stop  # when the maker has ended
        self._doors.send(_OPEN)
        loop.run()
        gateway.close_all()


@contextmanager
def _empty_image(engine: Engine, name: str) -> Iterator[str]:
    """Make an image with nothing in it but places for what is shown inside, and one that makes it like no other.

    Images that are alike may be one to their engine, and it is ours alone to take away.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for place in ("etc", "run", "tmp", "usr", f"run/{name}"):
            directory = tarfile.TarInfo(place)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(directory)
    image = import_image(engine, content.getvalue())
    try:
        yield image
    finally:
        engine.delete(f"/images/{image}")
