"""One command in a sandbox of its own, in the foreground: `belljar run`, on any backend.

A backend may have a way of its own to do that (`ForegroundRunner`): the local one forks without a server, and
containers carry terminals. Others are asked for nothing but what `Backend` says: a sandbox is made, served in this
process, and gone when the command has ended.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGCONT, SIGHUP
from typing import TYPE_CHECKING, Final

from belljar.backends.registry import ForegroundRunner, Plugin
from belljar.errors import BelljarError
from belljar.sandbox.spec import Command, SandboxSpec

if TYPE_CHECKING:
    from belljar.backends.attending import Outcome
    from belljar.backends.interface import Backend, Process
    from belljar.gateway.attachment import Attachment
    from belljar.sandbox.network import NetworkAccess

_SANDBOX: Final = "run"


def run_once(  # noqa: PLR0913 - all that a run is made of
    backend: Plugin,
    spec: SandboxSpec,
    command: Command,
    network: "Callable[[], NetworkAccess] | None",
    *,
    timeout: float | None = None,
    after_entrypoint: bool = True,
) -> "Outcome":
    """Run a command to its end. Without `network` it has the one that the backend gives.

    What it is to have is asked of `network` while the sandbox is being made, or before. `after_entrypoint` tells
    whether an image's entry point runs it. Raises BelljarError, OSError.
    """
    if isinstance(backend, ForegroundRunner):
        return backend.run(spec, command, network, timeout=timeout, after_entrypoint=after_entrypoint)
    # Few backends need it.
    from belljar.backends.attending import Attendant, Outcome, ending_in_order  # noqa: PLC0415
    from belljar.sandbox.attaching import served  # noqa: PLC0415

    with _opened(backend) as opened:
        launched = _Launched(opened, spec, command)
        access = network() if network is not None else None
        with ending_in_order(), served(launched.create, access, launched.end) as loop:
            attendant = Attendant(loop, launched)
            code = attendant.run(timeout)
            return Outcome(code, launched.process.out_of_memory(), attendant.timed_out)


@contextmanager
def _opened(plugin: Plugin) -> "Iterator[Backend]":
    with tempfile.TemporaryDirectory(prefix="belljar-run-") as state:
        backend = plugin.open(Path(state), os.environ)
        try:
            yield backend
        finally:
            backend.close()


class _Launched:
    """A sandbox whose command is to be started; see `attending.LaunchedCommand`."""

    def __init__(self, backend: "Backend", spec: SandboxSpec, command: Command) -> None:
        self._backend, self._spec, self._command = backend, spec, command
        self._process: Process | None = None
        self._early: list[int] = []
        """Signals that came before there was somebody to have them."""

    def create(self) -> "Attachment":
        return self._backend.create(_SANDBOX, self._spec)

    def go(self) -> None:
        from belljar.backends.interface import Streams  # noqa: PLC0415

        self._process = self._backend.start(_SANDBOX, self._command, Streams(0, 1, 2))
        for number in self._early:
            self.signal(number)

    @property
    def process(self) -> "Process":
        """The command, once it was started."""
        if self._process is None:
            raise RuntimeError("the command has not been started")
        return self._process

    def descriptor(self) -> int:
        return self.process.fileno()

    def wait(self) -> int:
        return self.process.wait()

    def signal(self, number: int) -> None:
        if self._process is None:
            self._early.append(number)
            return
        with suppress(BelljarError):
            self.process.signal(number)

    signal_group = signal

    def hang_up(self) -> None:
        for number in (SIGHUP, SIGCONT):
            self.signal(number)

    def group(self) -> None:
        """Tell nothing: what number it has is the backend's business."""

    def stopped_by(self) -> None:
        """Tell nothing: nobody says so."""

    def halt(self) -> None:
        with suppress(BelljarError):
            self._backend.pause(_SANDBOX)

    def resume(self, *, foreground: bool) -> None:  # noqa: ARG002 - there is no terminal
        with suppress(BelljarError):
            self._backend.resume(_SANDBOX)

    def kill(self) -> None:
        self._backend.destroy(_SANDBOX)

    def end(self) -> None:
        """Take the sandbox away, and let go of its command."""
        self.kill()
        if self._process is not None:
            self._process.close()
