"""What an engine knows of a command: its process, and how it ended."""

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from belljar.backends.containers.engine.client import Engine, EngineError, EngineLostError
from belljar.backends.interface import LostError
from belljar.linux.lives import Life, runs_own_program
from belljar.sandbox.terminal.callers import Size

KILLED: Final = 128 + 9

_SECONDS_TO_BEGIN: Final = 10.0
_START_TIMEOUT: Final = 60.0
"""Seconds after which a command without a process and without an exit code is taken for one that has ended."""

_LOOKS: Final = 20
"""How often we look for a container to go away when the engine has forgotten a command of it."""


class MainProcess(NamedTuple):
    """A command's process, as it is seen from this machine."""

    descriptor: int
    """Becomes readable when it has ended."""

    inside: int
    """Its number in the container."""

    pid: int
    """Its number on this machine."""


@dataclass(slots=True)
class Execution:
    """A command that an engine was told to run."""

    engine: Engine
    container: str
    """A name at first, and then what no other container will ever be called."""

    id: str

    def process(self) -> MainProcess | None:
        """Return the command's process once it has started; None if it is on another machine.

        Docker answers the request to start a command before it starts it: until then, the command neither runs nor has
        an exit code. Podman answers no question about a command while it starts it. An agent can stop the runtime's
        process inside, so that the command has no process number for as long as it likes: then it is None as well.
        """
        pauses, given_up = _pauses(), time.monotonic() + _START_TIMEOUT
        try:
            while True:
                known = self._inspect()
                if known["Running"]:
                    if known["Pid"]:
                        held = _hold(known["Pid"])
                        return held if held or self._inspect()["Running"] else _ended()
                    if time.monotonic() > given_up:
                        return None
                elif known["ExitCode"] is not None or time.monotonic() > given_up:
                    return _ended()
                time.sleep(next(pauses))
        except (EngineError, EngineLostError):
            return None  # the stream will end, and then we shall know more

    def resize(self, size: Size) -> bool:
        """Tell how large the terminal is; return whether the command's has that size now."""
        try:
            self.engine.post(f"/exec/{self.id}/resize", h=size.rows, w=size.columns)
        except (EngineError, EngineLostError):
            return False  # it has not begun yet, or has ended
        return True

    def is_running(self) -> bool:
        """Tell whether the engine takes it for running. It does for a moment longer than it is."""
        try:
            return bool(self._inspect()["Running"])
        except (EngineError, EngineLostError):
            return False

    def code(self) -> int:
        """Return the exit code as soon as there is one: that of a killed process if its container has gone away.

        Raises LostError if there never will be one.
        """
        pauses, looks = _pauses(), 0
        while looks < _LOOKS:
            try:
                known = self._look()
            except EngineLostError as error:
                raise LostError(f"{error}; nobody knows how the command ended") from error
            if known is None:
                looks += 1
            elif not known["Running"]:
                return int(known["ExitCode"])
            time.sleep(next(pauses))
        raise LostError(f"{self.engine.kind} has forgotten a command, and nobody knows how that ended")

    def _look(self) -> dict[str, Any] | None:
        """Return what the engine knows of a started command; None if nothing, though the container is there."""
        try:
            known = self._inspect()
        except EngineError:
            known = {"Running": False, "ExitCode": None}
        if not known["Running"] and known["ExitCode"] is not None:
            return known
        if not self._is_container_there():
            return {"Running": False, "ExitCode": KILLED}
        return known if known["Running"] else None

    def _is_container_there(self) -> bool:
        try:
            state = self.engine.get(f"/containers/{self.container}/json")["State"]
        except EngineError as error:
            return error.status != 404
        return bool(state["Running"] or state["Paused"])

    def _inspect(self) -> dict[str, Any]:
        known: dict[str, Any] = self.engine.get(f"/exec/{self.id}/json")
        self.container = known["ContainerID"]
        return known


def _hold(pid: int) -> MainProcess | None:
    """Take hold of a process in a container, by its number on the engine's machine: perhaps not this one."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return None
    inside = number_inside(pid)
    if inside is None:
        os.close(descriptor)
        return None
    _wait_for_program(pid)
    return MainProcess(descriptor, inside, pid)


def _wait_for_program(pid: int) -> None:
    """Wait while a process is a copy of the engine's runtime yet, which may take a signal and go without it.

    Not for ever: on this machine, the number of another machine's process may be anybody's.
    """
    given_up = time.monotonic() + _SECONDS_TO_BEGIN
    with suppress(ProcessLookupError):
        for pause in _pauses():
            if runs_own_program(pid) or time.monotonic() > given_up:
                return
            time.sleep(pause)


def _ended() -> MainProcess:
    """Return what stands for a process that ended before we could take hold of it."""
    return MainProcess(os.eventfd(1), 0, 0)


def number_inside(pid: int) -> int | None:
    """Return a process's number in its container, by its number here; None if no container here has it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    # Two numbers at least: a process with no other number than ours is in no container.
    numbers = re.search(r"^NSpid:\t\d+\t(?:\d+\t)*(\d+)$", status, re.MULTILINE)
    return int(numbers[1]) if numbers else None


def kill_container(first: Life) -> None:
    """Kill all that runs in a container, by its first process, if that is ours to do.

    An engine may have to wait for what it has started inside, which an agent can stop; nobody stops the kernel.
    """
    with suppress(OSError):  # it is not on this machine, not ours, or not there any more
        descriptor = first.hold()
        try:
            if number_inside(first.pid) == 1:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        finally:
            os.close(descriptor)


def _pauses() -> Iterator[float]:
    """Yield seconds to wait between two questions: few at first, and more when it takes long."""
    pause = 0.001
    while True:
        yield pause
        pause = min(pause * 1.5, 0.05)
