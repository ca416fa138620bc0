"""A sandbox that is made as `belljar run` makes it."""

import os
import signal
import socket
from collections.abc import Mapping

from belljar.backends.local.running import run
from belljar.linux.processes import get_signal_when_parent_dies
from belljar.sandbox.spec import Command, SandboxSpec
from belljar.verify.bundle import interpreter
from belljar.verify.trial import BUNDLE, SECONDS, Maker, Task, files
from belljar.verify.world import World


def maker(environment: Mapping[str, str]) -> Maker:  # noqa: ARG001 - it asks nobody
    """Return what makes local sandboxes."""
    return Maker(LocalTrial)


class LocalTrial:
    """A `Trial` of the local backend: a process on the world's host, which is the gateway, too."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.channel, self._end = socket.socketpair()
        self._process = -1

    def start(self, world: World) -> None:
        """See `Trial`."""
        self._process = self._task.fork(lambda: self._become(world), self._end)
        self._end.close()

    def finish(self) -> None:
        """See `Trial`."""
        self.channel.close()
        self._end.close()
        if self._process > 0:
            os.waitpid(self._process, 0)

    def _become(self, world: World) -> None:
        get_signal_when_parent_dies(signal.SIGKILL)
        self.channel.close()
        world.host.enter()
        os.dup2(self._end.fileno(), 0)
        os.dup2(self._end.fileno(), 1)
        python = interpreter()
        spec = SandboxSpec(
            workdir=self._task.workdir,
            environment={"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME") or "/nonexistent"},
            binds=python.binds,
            files=files(),
        )
        run(spec, Command((python.program, "-I", str(BUNDLE))), self._task.network(), timeout=SECONDS)
