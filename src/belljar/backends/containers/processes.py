"""Commands in a container, run by the engine's `exec`.

An engine starts them and knows how they end; their streams are a connection, and a thread of ours carries the bytes
between it and the caller's descriptors. `wait` returns when the last byte of output is written: whoever gave a file
finds all of it there. Of a command that was killed, what its reader does not take in a second is dropped.

What a command has left behind when it ends keeps nobody waiting for longer than Docker waits itself, two seconds; from
then on its output is the engine's to throw away. Docker notices no other end in that container meanwhile. Podman loses
some of the output, now and then, of a command that ends with more of its input unread than a pipe holds.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from belljar.backends.containers.callersterminal import CallersTerminal, Size, is_terminal
from belljar.backends.containers.engine import Engine
from belljar.backends.containers.execution import KILLED, Execution
from belljar.backends.containers.frames import FrameReader
from belljar.backends.containers.streaming import Pump
from belljar.backends.interface import LostError, Streams
from belljar.errors import BelljarError
from belljar.linux.lives import has_ended

Signaller = Callable[[int, int], None]
"""Sends a signal to a process group inside: by the number that its first process has there, and that of the signal."""

_SECONDS_BETWEEN_SIZES: Final = 0.2
_SECONDS_FOR_THE_REST: Final = 5.0
"""Longer than Docker waits for whoever holds an ended command's output."""

_SECONDS_FOR_A_READER: Final = 1.0
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
    ran_out: Callable[[], bool],
) -> "ContainerProcess":
    """Start a command, and return when it is there. Raises EngineError, EngineLostError."""
    has_terminal = is_terminal(streams.stdin, streams.stdout)
    wanted = {
        **dict.fromkeys(("AttachStdin", "AttachStdout", "AttachStderr"), True),
        "Tty": has_terminal,
        "DetachKeys": _UNUSUAL_KEYS,
        "Cmd": [*arguments],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": user or "",
    }
    execution = Execution(engine, container, engine.post(f"/containers/{container}/exec", wanted)["Id"])
    with ExitStack() as undo:
        connection, early = engine.attach(f"/exec/{execution.id}/start", {"Detach": False, "Tty": has_terminal})
        undo.callback(connection.close)
        pump = Pump(connection, early, streams, None if has_terminal else FrameReader())
        undo.callback(pump.close)
        terminal = CallersTerminal(streams.stdin) if has_terminal else None
        if terminal is not None:
            undo.callback(terminal.restore)
        process = ContainerProcess(execution, pump, terminal, signaller, ran_out)
        undo.pop_all()
    return process


class ContainerProcess:
    """A `Process` that an engine has started."""

    def __init__(
        self,
        execution: Execution,
        pump: Pump,
        terminal: CallersTerminal | None,
        signaller: Signaller,
        ran_out: Callable[[], bool],
    ) -> None:
        self._execution, self._pump, self._terminal, self._signaller = execution, pump, terminal, signaller
        self._ran_out = ran_out
        self._size: Size | None = None
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
        inside = self._number_inside()
        if inside is None:
            return
        try:
            self._signaller(inside, number)
        except BelljarError:
            if self._number_inside() is not None:
                raise

    def close(self) -> None:
        """See `Process`."""
        with self._lock:
            if self._told >= 0:
                os.close(self._told)
                self._told = -1

    def _number_inside(self) -> int | None:
        """Return the number of the command's process in the container; None if it has ended."""
        with self._lock:
            if self._over.is_set() or (self._main is not None and has_ended(self._main.descriptor)):
                return None
            if self._main is not None:
                return self._main.inside
        if not self._execution.is_running():
            return None
        raise LostError(f"{self._execution.engine.kind} runs the command on another machine; no signal reaches it")

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
            self._pump.carry(ended, self._look)
            self._pump.drain(_SECONDS_FOR_THE_REST)
            if not self._pump.is_open or not self._execution.is_running():
                return
            ended = None  # what has ended is another process, which has that number on this machine

    def _look(self) -> float | None:
        """Carry the size of the terminal, if there is one; return how soon to do it again."""
        if self._terminal is None:
            return None
        size = self._terminal.size()
        if size is not None and size != self._size and self._execution.resize(size):
            self._size = size
        return _SECONDS_BETWEEN_SIZES

    def _finish(self) -> None:
        if self._terminal is not None:
            self._terminal.restore()
        self._pump.close()
        with self._lock:
            self._over.set()
            if self._told >= 0:
                os.eventfd_write(self._told, 1)
            if self._main is not None:
                os.close(self._main.descriptor)
