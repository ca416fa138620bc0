"""A command in a container, from its description to its exit code."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Thread
from typing import Final

from belljar.backends.attending import Attendant, Outcome, ending_in_order
from belljar.backends.containers import leftovers
from belljar.backends.containers.backend import ContainerBackend
from belljar.backends.containers.engine.images import ensure_helper
from belljar.backends.containers.engine.locate import find_engine
from belljar.backends.containers.engine.places import Kind
from belljar.backends.containers.exec.process import ContainerProcess
from belljar.backends.containers.exec.state import KILLED
from belljar.backends.containers.toolbox import default_cache, open_toolbox
from belljar.backends.interface import LostError, SpecError, Streams
from belljar.backends.jobcontrol import JoinedTerminal
from belljar.errors import BelljarError
from belljar.gateway.listeners import Listeners
from belljar.sandbox.attaching import served
from belljar.sandbox.network import NetworkAccess
from belljar.sandbox.spec import Command, SandboxSpec

_SANDBOX: Final = "run"
_SECONDS_TO_ANSWER: Final = 1.0
_SECONDS_TO_SWEEP: Final = 2.0
"""From the end of a run on."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run in a container."""

    arguments: Sequence[str]
    """As with `docker run`: without any, it is the image's own command."""

    after_entrypoint: bool = True
    """Whether the image's entry point is what runs them."""


class Runner:
    """What runs containers on the engine of this machine."""

    def __init__(self, kind: Kind, environment: Mapping[str, str]) -> None:
        """Find the engine that our environment names. Raises MachineError."""
        self._engine, self._cache = find_engine(kind, environment), default_cache(environment)
        self._runs = self._cache.with_name("runs")

    def sweep(self) -> int:
        """Take away what is left of runs that were killed; return how many containers that were."""
        return leftovers.sweep(self._engine, self._runs)

    def trial(self) -> str | None:
        """Make a sandbox of our own image, seal it, and take it away; return why that did not work."""
        try:
            with leftovers.begin(self._runs) as begun:
                backend = ContainerBackend(self._engine, begun.state, self._cache, begun.owner, begun.labels)
                image = ensure_helper(self._engine, open_toolbox(self._cache))
                try:
                    backend.create(_SANDBOX, SandboxSpec(image=image)).close()
                finally:
                    backend.destroy(_SANDBOX)
        except (BelljarError, OSError) as error:
            return str(error)
        return None

    def run(
        self, spec: SandboxSpec, program: Program, network: NetworkAccess | None, timeout: float | None = None
    ) -> Outcome:
        """Run a program to its end and return how that was. Without `network` it has the engine's own.

        Raises MachineError, SpecError, LostError.
        """
        with self._sweeping(), leftovers.begin(self._runs) as begun:
            backend = ContainerBackend(self._engine, begun.state, self._cache, begun.owner, begun.labels)
            launched = _Launched(backend, spec, program)
            with ending_in_order(), served(launched.create, network, launched.kill) as loop:
                attendant = Attendant(loop, launched)
                code = attendant.run(timeout)
                return Outcome(code, launched.out_of_memory, attendant.timed_out)

    @contextmanager
    def _sweeping(self) -> Iterator[None]:
        """Sweep meanwhile. An agent of a killed run can have the engine wait; what is left then the next run takes."""

        def sweep() -> None:
            with suppress(BelljarError, OSError):  # if that is about the engine, the run itself will say so
                self.sweep()

        sweeping = Thread(target=sweep, daemon=True)
        sweeping.start()
        try:
            yield
        finally:
            sweeping.join(_SECONDS_TO_SWEEP)


class _Launched:
    """A sealed container whose program is to be started."""

    def __init__(self, backend: ContainerBackend, spec: SandboxSpec, program: Program) -> None:
        self._backend, self._spec, self._program = backend, spec, program
        self._process: ContainerProcess | None = None
        self._early: list[int] = []
        """Signals that came before there was somebody to have them."""
        self._began, self._killed = "", False
        self._is_halted = False
        self.out_of_memory = False

    def create(self) -> Listeners:
        return self._backend.create(_SANDBOX, self._spec)

    def go(self) -> JoinedTerminal | None:
        image = self._backend.image_of(self._spec)
        entrypoint = image.entrypoint if self._program.after_entrypoint else ()
        arguments = (*entrypoint, *(self._program.arguments or image.command))
        if not arguments:
            raise SpecError(f"the image {self._spec.image} does not say what to run; write a command after --")
        self._began = self._backend.began(_SANDBOX)
        self._process = self._backend.start(_SANDBOX, Command(arguments), Streams(0, 1, 2))
        for number in self._early:
            self.signal(number)
        if self._process.terminal is not None and self._process.terminal.is_monitored:
            self._process.terminal.is_left_keys = self._is_left_keys
        return self._process.terminal

    def descriptor(self) -> int:
        return self._started.fileno()

    def wait(self) -> int:
        code = self._started.wait()
        self.out_of_memory = self._started.out_of_memory()
        if code == KILLED and not (self._killed or self.out_of_memory or self._is_container_alive()):
            raise LostError("somebody else has ended the container, and the command with it")
        return code

    def _is_container_alive(self) -> bool:
        """Try whether something can be run in the container. The engine may not know yet that it has ended."""
        try:
            self._backend.get_file(_SANDBOX, "/proc/self/stat")
            return self._backend.began(_SANDBOX) == self._began
        except BelljarError:
            return False

    def signal(self, number: int) -> None:
        if self._process is None:
            self._early.append(number)
            return
        self._signal_in_turn(number)

    def hang_up(self) -> None:
        self._signal_in_turn(signal.SIGHUP, signal.SIGCONT)

    def signal_group(self, number: int) -> None:
        with suppress(BelljarError):  # it is ending, or the engine is gone, and then nobody can
            self._started.signal(number)

    def _signal_in_turn(self, *numbers: int) -> None:
        """Have signals sent, and do not wait: an agent can have the engine do that, and nothing ends meanwhile."""

        def send() -> None:
            for number in numbers:
                self.signal_group(number)

        Thread(target=send, daemon=True).start()

    def group(self) -> None:
        """Tell nothing: it has a number inside only."""

    def stopped_by(self) -> int | None:
        return self._started.stopped_by()

    def halt(self) -> None:
        self._is_halted = True  # an engine that reports an error may have done it all the same
        with suppress(BelljarError):  # not every engine can, as not every user may have control groups
            self._backend.pause(_SANDBOX)

    def resume(self, *, foreground: bool) -> None:
        if self._is_halted:
            self._is_halted = False
            with suppress(BelljarError):
                self._backend.resume(_SANDBOX)
        if (terminal := self._started.terminal) is not None and terminal.is_monitored:
            with suppress(BelljarError):
                self._backend.continue_command(_SANDBOX, self._started, foreground=foreground)
            self._started.note_continued()

    def _is_left_keys(self) -> bool:
        """Ask inside, where an agent may keep us from hearing anything. Then the keys count."""
        answers: list[bool] = []

        def ask() -> None:
            with suppress(BelljarError):
                answers.append(self._backend.is_left_keys(_SANDBOX, self._started))

        asking = Thread(target=ask, daemon=True)
        asking.start()
        asking.join(_SECONDS_TO_ANSWER)
        return answers[0] if answers else True

    def kill(self) -> None:
        self._killed = True
        self._backend.destroy(_SANDBOX)

    @property
    def _started(self) -> ContainerProcess:
        if self._process is None:
            raise LostError("the command has not been started")
        return self._process
