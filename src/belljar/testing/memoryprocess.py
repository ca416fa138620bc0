"""Programs of sandboxes in memory: functions, each on a thread of its own, that look like processes."""

import os
import select
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import socketpair
from threading import Event, Lock, Thread
from typing import Final

from belljar.backends.interface import Streams
from belljar.sandbox.spec import Command, SandboxSpec

KILLED: Final = 9

_CHUNK: Final = 65536


@dataclass
class MemorySandbox:
    """A sandbox that is nothing but this."""

    spec: SandboxSpec
    files: dict[str, bytes] = field(default_factory=dict)
    commands: "list[MemoryProcess]" = field(default_factory=list)
    goes_on: Event = field(default_factory=Event)
    """Not set while it is paused."""

    is_dead: bool = False
    doors: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Where its doors are, by the name of their group: what a program inside would try, a test can try."""

    @property
    def workdir(self) -> Path:
        """Where its commands work."""
        return self.spec.workdir or self.spec.scratch


class _EndedError(Exception):
    """A signal has ended the program."""


class MemoryProcess:
    """A `Process` that is a thread. Programs see the sandbox, and their streams, through it."""

    def __init__(self, inside: MemorySandbox, command: Command, streams: Streams, program: "Program") -> None:
        self.sandbox, self.command = inside, command
        self._streams, self._program = streams, program
        self._ended, self._ending = socketpair()
        self._woken, self._waking = socketpair()
        self._code: int | None = None
        self._out_of_memory = False
        self._lock = Lock()
        Thread(target=self._run, daemon=True).start()

    # What a program may do.

    def read(self) -> bytes:
        """Return more of the standard input; nothing at its end."""
        ready = select.select([self._streams.stdin, self._woken.fileno()], [], [])[0]
        self.sandbox.goes_on.wait()
        if self._woken.fileno() in ready:
            raise _EndedError
        return os.read(self._streams.stdin, _CHUNK)

    def write(self, content: bytes, *, to_stderr: bool = False) -> None:
        """Write to a standard stream."""
        self.sandbox.goes_on.wait()
        os.write(self._streams.stderr if to_stderr else self._streams.stdout, content)

    def sleep(self) -> None:
        """Do nothing until a signal comes."""
        select.select([self._woken], [], [])
        raise _EndedError

    def run_out_of_memory(self) -> None:
        """Be ended as the kernel ends a program for want of memory."""
        self._out_of_memory = True
        raise _EndedError

    # What its caller may do.

    def fileno(self) -> int:
        """See `Process`."""
        return self._ended.fileno()

    def wait(self, timeout: float | None = None) -> int:
        """See `Process`."""
        if self._code is None and not select.select([self._ended], [], [], timeout)[0]:
            raise TimeoutError("the command is still running")
        return self._code or 0

    def out_of_memory(self) -> bool:
        """See `Process`."""
        return self._out_of_memory

    def signal(self, number: int) -> None:
        """See `Process`."""
        self._finish(128 + number)
        with suppress(OSError):  # it has ended
            self._waking.send(b"!")

    def close(self) -> None:
        """See `Process`."""
        self._ended.close()

    def _run(self) -> None:
        try:
            code = self._program(self)
        except (_EndedError, OSError):
            code = 128 + KILLED
        for stream in self._streams:
            os.close(stream)
        self._woken.close()
        self._waking.close()
        self._finish(code)

    def _finish(self, code: int) -> None:
        with self._lock:
            if self._code is None:
                self._code = code
                self._ending.close()


Program = Callable[[MemoryProcess], int]


def _true(_: MemoryProcess) -> int:
    return 0


def _false(_: MemoryProcess) -> int:
    return 1


def _echo(process: MemoryProcess) -> int:
    process.write(" ".join(process.command.arguments[1:]).encode() + b"\n")
    return 0


def _cat(process: MemoryProcess) -> int:
    while content := process.read():
        process.write(content)
    return 0


def _env(process: MemoryProcess) -> int:
    variables = {"BELLJAR": "1", **process.sandbox.spec.environment, **process.command.environment}
    process.write("".join(f"{name}={value}\n" for name, value in variables.items()).encode())
    return 0


def _pwd(process: MemoryProcess) -> int:
    process.write(f"{process.command.workdir or process.sandbox.workdir}\n".encode())
    return 0


def _sleep(process: MemoryProcess) -> int:
    process.sleep()
    return 0


def no_such_program(process: MemoryProcess) -> int:
    """Say what a shell says of a program that is not there."""
    process.write(f"{process.command.arguments[0]}: not found\n".encode(), to_stderr=True)
    return 127


PROGRAMS: Final[dict[str, Program]] = {
    "true": _true,
    "false": _false,
    "echo": _echo,
    "cat": _cat,
    "env": _env,
    "pwd": _pwd,
    "sleep": _sleep,
}
