"""A worker as the supervisor sees it: a process to start, to ask and to end.

Several things can be asked at once; each answer names the question that it belongs to. Whoever asks says how long that
may take, and decides what a worker is worth that has not answered by then.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from signal import Signals
from socket import socketpair
from typing import Any, Final, NamedTuple

import belljar
from belljar.errors import BelljarError
from belljar.gateway.io.loop import Loop
from belljar.gateway.workers.channel import Channel
from belljar.gateway.workers.waiting import Waiting

PATIENCE: Final = 30.0
"""Seconds for what may take long: to start, and to compile a policy with 100,000 entries on a busy machine."""

_LAST_WORDS_SECONDS: Final = 5.0
_DEAD_SECONDS: Final = 1.0
"""Until a process that has left the conversation has ended; one that does not is killed."""

_PROGRAM: Final = """\
import sys
sys.path.append(sys.argv[1])
from belljar.gateway.workers.worker import main
main()
"""
_OUR_MODULES: Final = str(Path(belljar.__file__).resolve().parents[1])


class WorkerLostError(BelljarError):
    """A worker ended, or had to be ended, before it had done what it was asked for."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"a worker process of the gateway was lost ({cause})")
        self.cause = cause


class WorkerSilentError(BelljarError):
    """A worker has not answered in time."""

    def __init__(self) -> None:
        super().__init__("a worker process of the gateway does not answer; try again")


class RefusedError(BelljarError):
    """A worker says why it has not done what it was asked for."""


class WorkerProcess:
    """One worker process, in the network namespace of the thread that starts it, and ended with that thread."""

    def __init__(self, loop: Loop) -> None:
        """Start it. Raises WorkerLostError."""
        self._loop = loop
        try:
            ours, theirs = socketpair()
            with theirs:
                self._process = _start(theirs.fileno())
        except OSError as error:
            raise WorkerLostError(f"could not be started: {error}") from error
        self._channel = Channel(loop, ours)
        self._numbers = count()
        self._replies: dict[int, dict[str, Any] | None] = {}
        """What was answered to the questions that somebody waits for."""
        self._news = Waiting(loop)
        self._listening = loop.spawn(self._listen())

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def ask(self, what: str, descriptors: Sequence[int] = (), *, patience: float, **data: Any) -> Any:
        """Have something done, and return the answer. Raises RefusedError, WorkerSilentError and WorkerLostError."""
        number = next(self._numbers)
        self._replies[number] = None
        try:
            if not self._listening.done:
                self._channel.send({"number": number, "do": what, **data}, descriptors)
            await self._news.until(lambda: self._listening.done or self._replies[number] is not None, patience)
            reply = self._replies[number]
        finally:
            del self._replies[number]
        if reply is None:
            if self._listening.done:
                raise WorkerLostError(await self.ended())
            raise WorkerSilentError
        if "refused" in reply:
            raise RefusedError(reply["refused"])
        return reply["answer"]

    async def is_lost_within(self, seconds: float) -> bool:
        """Wait for the end of the conversation, and tell whether it is over."""
        return await self._news.until(lambda: self._listening.done, seconds)

    def kill(self) -> None:
        """End the process where it is, whatever it does or does not do: nothing of it runs any more."""
        self._process.kill()

    async def ended(self) -> str:
        """Return what became of a process that has left the conversation, or was killed."""
        if not await self._has_ended(_DEAD_SECONDS):
            self.kill()
            await self._has_ended(_DEAD_SECONDS)
        code = self._process.poll()
        if code is None:
            return "killed, and held up in the kernel"
        return f"killed by {Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def dismiss(self) -> None:
        """End the conversation, which ends the process after its last lines in the audit log."""
        self._listening.cancel()
        self._channel.close()

    def reap(self) -> None:
        """Wait for the end of a process that was dismissed. It blocks the thread."""
        try:
            self._process.wait(_LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    async def _listen(self) -> None:
        """Take answers until the other end is lost."""
        with suppress(EOFError):
            while True:
                reply = (await self._channel.receive()).data
                if reply["number"] in self._replies:
                    self._replies[reply["number"]] = reply
                    self._news.look_again()
        self._news.look_again()

    async def _has_ended(self, seconds: float) -> bool:
        if self._process.poll() is not None:
            return True
        descriptor = _Descriptor(os.pidfd_open(self.pid))
        watch = self._loop.watch(descriptor)
        try:
            with self._loop.timeout(seconds):
                while self._process.poll() is None:
                    await self._loop.readable(watch)
        except TimeoutError:
            return False
        finally:
            self._loop.unwatch(descriptor)
            os.close(descriptor.number)
        return True


class _Descriptor(NamedTuple):
    number: int

    def fileno(self) -> int:
        return self.number


def _start(descriptor: int) -> "subprocess.Popen[bytes]":
    # An agent may write to our working directory, or to one that a variable names, and modules are found by paths:
    # nothing is imported from there. A session of its own keeps the terminal's signals away.
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-I", "-W", "ignore", "-c", _PROGRAM, _OUR_MODULES, str(descriptor)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )
