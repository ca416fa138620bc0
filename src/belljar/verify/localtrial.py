"""A sandbox that is made as `belljar run` makes it."""

import os
import signal
import socket
from collections.abc import Mapping
from typing import Final

from belljar.backends.local.running import run
from belljar.linux.processes import get_signal_when_parent_dies
from belljar.sandbox import bounds
from belljar.sandbox.spec import Command, SandboxSpec
from belljar.verify.bundle import interpreter
from belljar.verify.internet.world import World
from belljar.verify.probes.host.planted import TOOLS
from belljar.verify.trial import BUNDLE, SECONDS, TrialMaker, TrialTask, boundless_memory, files

_BYTES_TO_A_FILE: Final = 16384
_LIMITS: Final = {
    "RLIMIT_NPROC": 4096,
    "RLIMIT_NOFILE": 65536,
    "RLIMIT_MEMLOCK": 64 << 20,
    "RLIMIT_MSGQUEUE": 819200,
    "RLIMIT_SIGPENDING": 16384,
}


def maker(environment: Mapping[str, str]) -> TrialMaker:  # noqa: ARG001 - it asks nobody
    """Return what makes local sandboxes, and how much they promise to use at most."""
    memory = bounds.here()
    most = {"bytes": memory // 2, "files": memory // 2 // _BYTES_TO_A_FILE, "shared": bounds.shared(memory), **_LIMITS}
    return TrialMaker(LocalTrial, boundless_memory(), bounds=most)


class LocalTrial:
    """A `Trial` of the local backend: a process on the world's host, which is the gateway, too."""

    def __init__(self, task: TrialTask) -> None:
        self._task = task
        self.channel, self._end = socket.socketpair()
        self.maker: int | None = None

    def start(self, world: World) -> None:
        """See `Trial`."""
        self.maker = self._task.fork(lambda: self._become(world), self._end)
        self._end.close()

    def finish(self) -> None:
        """See `Trial`."""
        self.channel.close()
        self._end.close()
        if self.maker is not None:
            os.waitpid(self.maker, 0)

    def _become(self, world: World) -> None:
        get_signal_when_parent_dies(signal.SIGKILL)
        self.channel.close()
        world.host.enter()
        os.dup2(self._end.fileno(), 0)
        os.dup2(self._end.fileno(), 1)
        python = interpreter()
        spec = SandboxSpec(
            workdir=self._task.workdir,
            environment={"PATH": f"{self._task.home / TOOLS}:/usr/bin:/bin", "HOME": str(self._task.home)},
            binds=(*python.binds, *self._task.binds),
            files=files(),
        )
        run(spec, Command((*python.words, "-I", str(BUNDLE))), self._task.network, timeout=SECONDS)
