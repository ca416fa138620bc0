"""The service by which a grader runs commands beside a submission (`isolate_submission`).

Theory of operation
-------------------
There are two sandboxes. The grader's has the tests, and never a file of the submission; the submission's is made as the
work sandbox is, and never has a file of the tests. The grader runs `belljar-submission COMMAND`, whose request comes
here through a unix socket that is this grading's alone, as the one service that the grader's sandbox reaches. The
command runs in the submission's sandbox, with standard input passed whole, and its output and exit code go back.

So submitted code decides what its own commands print, and nothing else: it cannot read the tests, write the grader's
result, print into the grader's output, or end the grader. The grader must treat what it gets as data.

If the submission ends its own sandbox, or uses up its memory or processes, its commands end as if killed. A failure of
the backend before any of its code has run cannot be its doing: that is noted in `failure`, and the grading is tried
again.
"""

import asyncio
import io
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from belljar.backends.interface import GoneError, SpecError
from belljar.errors import BelljarError, message
from belljar.harness.judge.server import serve_on_socket
from belljar.harness.sandboxes import HarnessSandbox
from belljar.sandbox.spec import Command

SERVICE: Final = "submission"
PROGRAM: Final = "belljar-submission"

_CANNOT_RUN: Final = 126  # as shells report a program that cannot be run, and one that SIGKILL has ended
_KILLED: Final = 137
_STEP_TIMEOUT: Final = 60.0
_MAX_WORDS: Final = 1 << 20
_MAX_INPUT: Final = 16 << 20
_MAX_OUTPUT: Final = 16 << 20
_MAX_COMMANDS: Final = 8


class SubmissionService:
    """Runs commands in the sandbox of a submission. `failure` is what makes the grading worth nothing."""

    def __init__(self, sandbox: HarnessSandbox, cwd: PurePosixPath) -> None:
        self._sandbox, self._cwd = sandbox, Path(cwd)
        self._turns = asyncio.Semaphore(_MAX_COMMANDS)
        self._has_run = False
        self.failure: BelljarError | None = None

    @asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[None]:
        """Serve at a unix socket. Raises JudgeServerError."""
        async with serve_on_socket(Starlette(routes=[Route("/run", self._run, methods=["POST"])]), socket):
            yield

    async def _run(self, request: Request) -> Response:
        async with self._turns:
            try:
                words, stdin = await _read(request)
            except ClientDisconnect:
                return PlainTextResponse("")
            except ValueError as error:
                return PlainTextResponse(str(error), 400)
            with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
                code = await _unless_disconnected(request, self._execute(words, stdin, stdout, stderr))
                if code is None:
                    return PlainTextResponse("the submission's command cannot be run; see the judge", 503)
                return _answer(code, stdout, stderr)

    async def _execute(self, words: tuple[str, ...], stdin: bytes, stdout: BinaryIO, stderr: BinaryIO) -> int | None:
        """Run a command and return its exit code; None if there is none."""
        command = Command(words, workdir=self._cwd)
        try:
            ended = await self._sandbox.run(command, stdout, stdin=stdin, limit=_MAX_OUTPUT, errors=stderr)
        except SpecError as error:
            stderr.write(f"{PROGRAM}: {message(error)}\n".encode())
            return _CANNOT_RUN
        except BelljarError as error:
            # What has run before can use up all memory and processes of its sandbox, and keep the next from running.
            if not self._has_run and not isinstance(error, GoneError) and not await self._is_gone():
                self.failure = error
                return None
            stderr.write(f"{PROGRAM}: the submission has ended its own sandbox, or keeps commands from it\n".encode())
            return _KILLED
        finally:
            self._has_run = True
        return ended.exit_code

    async def _is_gone(self) -> bool:
        """Return whether the sandbox has ended: how a command ended that was killed with it is often lost."""
        try:
            await self._sandbox.run(Command(("/bin/true",)), io.BytesIO(), timeout=_STEP_TIMEOUT, limit=0)
        except GoneError:
            return True
        except BelljarError:
            return False
        return False


async def _read(request: Request) -> tuple[tuple[str, ...], bytes]:
    """Return the words of the command, and its input. Raises ValueError."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MAX_WORDS + _MAX_INPUT:
            raise ValueError(f"standard input is larger than {_MAX_INPUT >> 20} MB")
    line, _, stdin = bytes(content).partition(b"\n")
    data = json.loads(line) if len(line) <= _MAX_WORDS else None
    words: Any = data.get("arguments") if isinstance(data, dict) else None
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError("the command is no list of words, or too long")
    return tuple(words), stdin


async def _unless_disconnected(request: Request, running: Any) -> int | None:
    """Await a command, and end it if the client leaves."""
    command, leaving = asyncio.ensure_future(running), asyncio.ensure_future(_disconnection(request))
    try:
        await asyncio.wait((command, leaving), return_when=asyncio.FIRST_COMPLETED)
        return command.result() if command.done() else None
    finally:
        for task in (command, leaving):
            task.cancel()
        await asyncio.gather(command, leaving, return_exceptions=True)


async def _disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _answer(code: int, stdout: BinaryIO, stderr: BinaryIO) -> Response:
    stdout.seek(0)
    stderr.seek(0)
    written = stdout.read()
    headers = {"X-Exit-Code": str(code), "X-Stdout-Length": str(len(written))}
    return Response(written + stderr.read(), headers=headers, media_type="application/octet-stream")
