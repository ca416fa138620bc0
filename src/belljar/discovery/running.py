"""Run a program of the system's and take its answer: of bounded size, and in bounded time."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from belljar.linux.programs import ENVIRONMENT

MAX_BYTES = 4 << 20
"""More than any tool says or any configuration file holds."""


class NoAnswerError(Exception):
    """Nothing usable is to be had. The text is a clause for a person; it never repeats what was read."""


def answer_of(program: Path, arguments: Sequence[str], directory: Path, seconds: float) -> str:
    """Return what a program prints that was found to be trusted, or raise NoAnswerError."""
    try:
        child = subprocess.Popen(  # noqa: S603 - no shell; the program is the system's own
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # may repeat credentials
            cwd=directory,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError:
        raise NoAnswerError(f"{program.name} cannot be started") from None
    with child:
        return _answer(child, program.name, seconds)


def _answer(child: subprocess.Popen[bytes], name: str, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    try:
        output = _read_all(child, deadline)
        status = child.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise NoAnswerError(f"{name} did not answer within {seconds:g} seconds") from None
    except OverflowError:
        raise NoAnswerError(f"{name} answered more than can be read") from None
    finally:
        # Not yet reaped, so its number, which is its group's too, is still its own.
        if child.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    if status != 0:
        raise NoAnswerError(f"{name} failed (exit status {status})")
    return output.decode(errors="replace")


def _read_all(child: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read up to the end of the output. A pipe that a grandchild holds open must not outlast the deadline."""
    assert child.stdout is not None  # noqa: S101 - it is a pipe
    output = bytearray()
    poller = select.poll()
    poller.register(child.stdout, select.POLLIN)
    while poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        chunk = os.read(child.stdout.fileno(), 65536)
        if not chunk:
            return bytes(output)
        output += chunk
        if len(output) > MAX_BYTES:
            raise OverflowError
    raise TimeoutError
