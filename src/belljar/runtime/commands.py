"""Commands in sandboxes: their input, their output as it comes, their exit code, and what remains if the server dies.

Theory of operation
-------------------
A command writes to two named pipes in the server's directory, which it holds open for reading as well. So there is a
reader as long as it lives, and the death of the server does not end it: it waits, once the pipes are full, until the
next life of the server has found them by their names, and reads on (`drain_orphans`). Neither does the end of a command
end what it has left running. Its input is a file that has no name, and is complete from the beginning.

What is not read is not taken out of the pipe: a slow client makes the command wait, as a slow terminal would. Its time
passes all the same: a thread has an eye on that, whoever reads or does not.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from signal import SIGKILL
from threading import Timer
from typing import Any, Final, Literal, NamedTuple

from belljar.backends.interface import LostError, MachineError, Process, Streams
from belljar.errors import BelljarError, reason
from belljar.policy.language.normal import normal_services
from belljar.runtime.context import Context, run_in_thread
from belljar.runtime.pipes import OutputPipe
from belljar.runtime.policies import Networks
from belljar.runtime.sandbox import Sandbox
from belljar.sandbox.agentsettings import agent_variables
from belljar.sandbox.spec import Command

Stream = Literal["stdout", "stderr"]
Pipes = dict[Stream, OutputPipe]

_STREAMS: Final[tuple[Stream, Stream]] = ("stdout", "stderr")
_SECONDS_TO_END: Final = 2.0
_DEFIED: Final = "a command could not be ended when its time was over, so the policy became block-all"
_LOG: Final = logging.getLogger(__name__)


class Output(NamedTuple):
    """Something that a command has written."""

    stream: Stream
    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command has ended."""

    exit_code: int
    timed_out: bool
    seconds: float
    out_of_memory: bool = False


class Commands:
    """Starts commands."""

    def __init__(self, context: Context, networks: Networks) -> None:
        self._context, self._networks = context, networks
        self._directory = context.state / "pipes"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._drains: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.Task[None]] = set()

    async def start(self, sandbox: Sandbox, command: Command, stdin: bytes, timeout: float | None) -> "Running":
        """Start a command. Raises what `Backend.start` raises."""
        self._context.find_served(sandbox.id)
        name, loop = f"{sandbox.id}-{secrets.token_hex(6)}", asyncio.get_running_loop()
        try:
            pipes: Pipes = {stream: OutputPipe(self._directory / f"{name}-{stream}") for stream in _STREAMS}
        except OSError as error:
            raise MachineError(
                f"{self._directory} cannot be written ({reason(error)}); make room on its disk"
            ) from None
        try:
            process = await self._start(sandbox, command, stdin, pipes)
        except BaseException:
            for pipe in pipes.values():
                pipe.close()
            raise
        alarm = _Alarm(process, timeout, partial(loop.call_soon_threadsafe, self._close, sandbox))
        return Running(process, pipes, alarm, self._leave, self._end)

    def drain_orphans(self) -> None:
        """Read what commands of an earlier life write, so that they go on."""
        for path in self._directory.iterdir():
            self._leave(OutputPipe(path))

    def _leave(self, pipe: OutputPipe) -> None:
        """Let go of a pipe when nobody writes to it any more."""
        task = asyncio.create_task(pipe.drain())
        self._drains.add(task)
        task.add_done_callback(self._drains.discard)

    def _end(self, process: Process) -> None:
        """End a command that nobody listens to any more. It takes its time, and whoever has left does not wait."""
        self._keep(_kill(process))

    def _close(self, sandbox: Sandbox) -> None:
        """Leave a sandbox nothing to reach in which a command goes on that should have ended."""
        _LOG.warning("%s: %s", sandbox.id, _DEFIED)
        self._keep(_try(self._networks.close(sandbox, _DEFIED)))

    def _keep(self, act: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(act)
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def finish(self) -> None:
        """Wait for the end of commands that nobody listens to any more, unless a backend lets us wait."""
        if self._ends:
            await asyncio.wait(self._ends, timeout=_SECONDS_TO_END)

    async def _start(self, sandbox: Sandbox, command: Command, stdin: bytes, pipes: Pipes) -> Process:
        services = normal_services(sandbox.network.base.document)
        command = replace(command, environment={**agent_variables(services), **command.environment})
        given = await run_in_thread(lambda: _file_with(stdin))
        ends = [pipe.open_writer() for pipe in pipes.values()]
        try:
            streams = Streams(given, *ends)
            return await self._context.inside(sandbox, lambda backend: backend.start(sandbox.id, command, streams))
        finally:
            for descriptor in (given, *ends):
                os.close(descriptor)


class Running:
    """A command that was started."""

    def __init__(
        self,
        process: Process,
        pipes: Pipes,
        alarm: "_Alarm",
        leave: Callable[[OutputPipe], None],
        end: Callable[[Process], None],
    ) -> None:
        self._process, self._pipes, self._alarm = process, pipes, alarm
        self._leave, self._end = leave, end

    async def follow(self) -> AsyncGenerator[Output | Ended, None]:
        """Yield what it writes, and how it ended. Whoever stops listening before that ends it."""
        loop, process = asyncio.get_running_loop(), self._process
        started, ended = loop.time(), asyncio.Event()
        loop.add_reader(process.fileno(), ended.set)
        end = asyncio.create_task(ended.wait())
        reads = {asyncio.create_task(pipe.read()): stream for stream, pipe in self._pipes.items()}
        try:
            while not end.done():
                await asyncio.wait([end, *reads], return_when=asyncio.FIRST_COMPLETED)
                for read in [read for read in reads if read.done()]:
                    stream = reads.pop(read)
                    if data := read.result():
                        yield Output(stream, data)
                        reads[asyncio.create_task(self._pipes[stream].read())] = stream
            for read, stream in reads.items():
                if data := (read.result() if read.done() else b"") + self._pipes[stream].read_now():
                    yield Output(stream, data)
            code, seconds = process.wait(0), loop.time() - started
            yield Ended(code, self._alarm.has_rung, seconds, await run_in_thread(process.out_of_memory))
        finally:
            self._alarm.call_off()
            loop.remove_reader(process.fileno())
            for task in (end, *reads):
                task.cancel()
            if ended.is_set():
                process.close()
            else:
                self._end(process)
            for pipe in self._pipes.values():
                self._leave(pipe)


async def _try(act: Coroutine[Any, Any, None]) -> None:
    with suppress(BelljarError):  # the sandbox has ended meanwhile
        await act


async def _kill(process: Process) -> None:
    try:
        with suppress(BelljarError):  # its backend is lost, and nobody is left to be told
            await run_in_thread(lambda: process.signal(SIGKILL))
    finally:
        process.close()


class _Alarm:
    """Kills a command when its time is over, or says that this cannot be done."""

    def __init__(self, process: Process, timeout: float | None, on_defiance: Callable[[], object]) -> None:
        self._process, self._on_defiance, self.has_rung = process, on_defiance, False
        self._timer = Timer(timeout, self._ring) if timeout is not None else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def call_off(self) -> None:
        """Let the command have all the time it wants."""
        if self._timer is not None:
            self._timer.cancel()

    def _ring(self) -> None:
        self.has_rung = True
        try:
            self._process.signal(SIGKILL)
        except LostError:
            self._on_defiance()
        except (BelljarError, OSError):
            pass  # it has ended


def _file_with(content: bytes) -> int:
    """Return a file without a name that has this content, to be read from its beginning."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
