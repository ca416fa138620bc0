"""Commands in a container, run by the engine's `exec`.

An engine starts them and knows how they end; their streams are a connection, and a thread of ours carries the bytes
between it and the caller's descriptors. `wait` returns when the last byte of output is written: whoever gave a file
finds all of it there. Of a command that was killed, what its reader does not take in a second is dropped.

What a command has left behind when it ends keeps nobody waiting for longer than Docker waits itself, two seconds; from
then on its output is the engine's to throw away. Docker notices no other end in that container meanwhile. Podman loses
some of the output, now and then, of a command that ends with more of its input unread than a pipe holds.
"""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.exec.frames import FrameReader
from belljar.backends.containers.exec.monitor import stopped_by
from belljar.backends.containers.exec.state import KILLED, Execution
from belljar.backends.containers.exec.streaming import StreamPump
from belljar.backends.containers.exec.terminal import ContainerTerminal
from belljar.backends.interface import LostError, Streams
from belljar.errors import BelljarError
from belljar.linux.jobs import glimpse
from belljar.linux.lives import children_of, has_ended
from belljar.sandbox.terminal.callers import Size

Signaller = Callable[[int, int], None]
"""Sends a signal to a process group inside: by the number that its first process has there, and that of the signal."""

_SECONDS_BETWEEN_LOOKS: Final = 0.2
_SECONDS_FOR_THE_REST: Final = 5.0
"""Longer than Docker waits for whoever holds an ended command's output."""

_SECONDS_FOR_A_READER: Final = 1.0
_SECONDS_TO_DIE: Final = 5.0
"""For a command that was killed from inside, until everything else is killed with it."""

_CONTINUE_TIMEOUT: Final = 10.0
"""Seconds after which a command that is still stopped is continued again: the engine has failed to do it."""

_UNUSUAL_KEYS: Final = "ctrl-^,ctrl-],ctrl-^,ctrl-]"
"""What makes an engine let go of a terminal. None are not to be had, and the usual ones begin with a ctrl-p."""


def start(  # noqa: PLR0913 - this is what an engine wants to know
    engine: Engine,
    container: str,
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    user: str | None,
    streams: Streams,
    signaller: Signaller,
    kill_all: Callable[[], None],
    ran_out: Callable[[], bool],
    terminal: ContainerTerminal | None,
) -> "ContainerProcess":
    """Start a command, and return when it is there. Raises EngineError, EngineLostError."""
    has_terminal = terminal is not None
    wanted = {
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
        "Tty": has_terminal,
        "DetachKeys": _UNUSUAL_KEYS,
        "Cmd": [*arguments],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": user or "",
    }
    with ExitStack() as undo:
        if terminal is not None:
            undo.callback(terminal.close)
        execution = Execution(engine, container, engine.post(f"/containers/{container}/exec", wanted)["Id"])
        connection, early = engine.attach(f"/exec/{execution.id}/start", {"Detach": False, "Tty": has_terminal})
        undo.callback(connection.close)
        pump = StreamPump(connection, early, streams, None if has_terminal else FrameReader(), terminal)
        undo.callback(pump.close)
        if terminal is not None and terminal.begins_joined:
            terminal.join()
        process = ContainerProcess(execution, pump, terminal, signaller, kill_all, ran_out)
        undo.pop_all()
    return process


class ContainerProcess:
    """A `Process` that an engine has started."""

    def __init__(  # noqa: PLR0913, PLR0917 - see `start`
        self,
        execution: Execution,
        pump: StreamPump,
        terminal: ContainerTerminal | None,
        signaller: Signaller,
        kill_all: Callable[[], None],
        ran_out: Callable[[], bool],
    ) -> None:
        self._execution, self._pump, self.terminal, self._signaller = execution, pump, terminal, signaller
        self._kill_all, self._ran_out = kill_all, ran_out
        self._size: Size | None = None
        self._known_stop = ""
        """The name of the last stop that was reported. Engines take a while to continue a command."""
        self._continued = math.inf
        """When the engine was last asked to continue the command after that stop."""
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._outcome: int | LostError = LostError("the end of the command was not noticed")
        self._main = execution.process()
        self._told = os.eventfd(0)
        threading.Thread(target=self._attend, name="belljar-command", daemon=True).start()

    def fileno(self) -> int:
        """See `Process`."""
        return self._told

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        if not self._over.wait(timeout):
            raise TimeoutError("the command is still running")
        if isinstance(self._outcome, LostError):
            raise LostError(str(self._outcome))
        return self._outcome

    def out_of_memory(self) -> bool:
        """See `Process`."""
        return self._ran_out()

    def signal(self, number: int) -> None:
        """See `Process`. Raises LostError if the process is not on this machine, and what the signaller raises."""
        inside = self.number_inside()
        if inside is None or self._signal_from_here(number):
            return
        try:
            if number == signal.SIGKILL:
                self._kill_from_inside(inside)
            else:
                self._signaller(inside, number)
        except BelljarError:
            if self.number_inside() is not None:
                raise

    def _signal_from_here(self, number: int) -> bool:
        """Signal the command's processes, if they are ours to signal: whoever does that inside, the agent can stop."""
        with self._lock:
            if self._main is None or self._over.is_set():
                return False
            is_monitored = self.terminal is not None and self.terminal.is_monitored
            try:
                if number == signal.SIGKILL:
                    _signal_groups((*(children_of(self._main.pid) if is_monitored else ()), self._main.pid), number)
                    signal.pidfd_send_signal(self._main.descriptor, number)
                elif is_monitored:
                    return False  # the command is its child, which nobody here holds
                elif not _signal_groups((self._main.pid,), number):  # at first, it may not have a group yet
                    signal.pidfd_send_signal(self._main.descriptor, number)
            except PermissionError:
                return False
            except ProcessLookupError:
                pass  # it has ended
            return True

    def _kill_from_inside(self, inside: int) -> None:
        """Have the command killed by a program of ours; if the agent keeps it from that, the engine kills everything.

        The command's end tells, and not the engine's answer: the program may have been stopped once it was there.
        """
        try:
            self._signaller(inside, signal.SIGKILL)
            is_over = self._over.wait(_SECONDS_TO_DIE)
        except LostError:
            is_over = False
        if not is_over and self.number_inside() is not None:
            self._kill_all()

    def stopped_by(self) -> int | None:
        """Return the signal that has stopped a command with a terminal; None if it runs, or nobody knows."""
        with self._lock:
            if self.terminal is None or self._main is None or self._over.is_set():
                return None
            seen = glimpse(self._main.pid)
        is_late = time.monotonic() - self._continued > _CONTINUE_TIMEOUT
        if seen is None or not seen.is_stopped or (seen.name == self._known_stop and not is_late):
            return None
        self._known_stop, self._continued = seen.name, math.inf
        return stopped_by(seen.name)

    def note_continued(self) -> None:
        """Record that the engine was asked to continue the command; if that has no effect, report the stop again."""
        self._continued = time.monotonic()

    def number_inside(self) -> int | None:
        """Return the number of the command's process in the container; None if it has ended. Raises LostError."""
        with self._lock:
            if self._over.is_set() or (self._main is not None and has_ended(self._main.descriptor)):
                return None
            if self._main is not None:
                return self._main.inside
        if not self._execution.is_running():
            return None
        raise LostError(f"{self._execution.engine.kind} runs the command on another machine; no signal reaches it")

    def close(self) -> None:
        """See `Process`."""
        with self._lock:
            if self._told >= 0:
                os.close(self._told)
                self._told = -1

    def _attend(self) -> None:
        """Be there for the command until it has ended and everything is told."""
        try:
            self._carry()
            self._outcome = self._execution.code()
        except LostError as error:
            self._outcome = error
        finally:
            ended_by_itself = isinstance(self._outcome, int) and self._outcome != KILLED
            self._pump.flush(None if ended_by_itself else _SECONDS_FOR_A_READER)
            self._finish()

    def _carry(self) -> None:
        ended = None if self._main is None else self._main.descriptor
        while True:
            self._pump.carry(ended, self._look, None if self.terminal is None else self.terminal.changed)
            self._pump.drain(_SECONDS_FOR_THE_REST)
            if not self._pump.is_open or not self._execution.is_running():
                return
            ended = None  # what has ended is another process, which has that number on this machine

    def _look(self) -> float | None:
        """Carry the size of the terminal, if there is one; return how soon to do it again."""
        if self.terminal is None:
            return _SECONDS_BETWEEN_LOOKS if self._pump.looks_for_input else None
        with suppress(BlockingIOError):
            os.eventfd_read(self.terminal.changed)
        size = self.terminal.callers.size()
        if size is not None and size != self._size and self._execution.resize(size):
            self._size = size
        return _SECONDS_BETWEEN_LOOKS

    def _finish(self) -> None:
        self._pump.close()
        with self._lock:
            self._over.set()
            if self._told >= 0:
                os.eventfd_write(self._told, 1)
            if self._main is not None:
                os.close(self._main.descriptor)


def _signal_groups(leaders: Sequence[int], number: int) -> bool:
    """Signal process groups; return whether any of them is there. Raises PermissionError."""
    signalled = False
    for leader in leaders:
        with suppress(ProcessLookupError):
            os.killpg(leader, number)
            signalled = True
    return signalled
