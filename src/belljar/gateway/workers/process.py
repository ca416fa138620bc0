"""A worker as the supervisor sees it: a process to start, to ask and to end."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from signal import Signals
from socket import socketpair
from typing import Any, Final

import belljar
from belljar.errors import BelljarError
from belljar.gateway.loop import Loop
from belljar.gateway.workers.channel import Channel

PATIENCE: Final = 30.0
"""Seconds until a worker that does not answer is taken for lost. A policy with 100,000 entries takes a few."""

_LAST_WORDS_SECONDS: Final = 5.0

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
        super().__init__(f"a worker process of the gateway was lost ({cause}), and nothing was changed")
        self.cause = cause


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
        self.channel = Channel(loop, ours)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def ask(self, what: str, descriptors: Sequence[int] = (), **data: Any) -> Any:
        """Have something done, and return the answer. Raises RefusedError, and WorkerLostError."""
        try:
            with self._loop.timeout(PATIENCE):
                await self.channel.send({"do": what, **data}, descriptors)
                reply = (await self.channel.receive()).data
        except TimeoutError as error:
            self._process.kill()
            raise self.lost() from error
        except EOFError as error:
            raise self.lost() from error
        if "refused" in reply:
            raise RefusedError(reply["refused"])
        return reply["answer"]

    def lost(self) -> WorkerLostError:
        """Return what became of a process that has left the conversation."""
        code = self._ended()
        return WorkerLostError(f"killed by {Signals(-code).name}" if code < 0 else f"ended with exit code {code}")

    def dismiss(self) -> None:
        """End the process, with time for its last lines in the audit log."""
        self.channel.close()
        self._ended()

    def _ended(self) -> int:
        """Wait for the process to end, which it does when the conversation is over, and return how it did."""
        try:
            return self._process.wait(_LAST_WORDS_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _start(descriptor: int) -> "subprocess.Popen[bytes]":
    # An agent may write to our working directory, and modules are found by paths: nothing is imported from there.
    # A session of its own keeps the terminal's signals away.
    return subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-P", "-W", "ignore", "-c", _PROGRAM, _OUR_MODULES, str(descriptor)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        start_new_session=True,
    )
