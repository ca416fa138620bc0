"""Sandboxes without walls: a directory that stands for `/work`, in which commands are run as they are.

They do what the harness expects of a sandbox, and can be told to fail as real ones do.
"""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from belljar.backends.interface import GoneError, LostError, MachineError
from belljar.runtime.commands import Ended
from belljar.sandbox.spec import Command, SandboxSpec

WORK = "/work"


class DirectorySandbox:
    """One of them. `fault` is the step at which it ends: `put`, `run` or `lost`."""

    def __init__(self, root: Path, fault: str | None) -> None:
        self.id, self.root, self._fault = root.name, root, fault
        self.commands: list[Command] = []

    async def run(
        self, command: Command, output: BinaryIO, *, stdin: bytes = b"", timeout: float | None = None, limit: int
    ) -> Ended:
        self.commands.append(command)
        self._fail_if("lost" if command.workdir else "setup")
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *(self._inside(argument) for argument in command.arguments),
            cwd=self._inside(str(command.workdir)) if command.workdir else self.root,
            env={"PATH": os.environ["PATH"], **command.environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        timed_out = False
        try:
            async with asyncio.timeout(timeout):
                await self._copy(process, output, limit)
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        self._fail_if("run" if command.workdir else None)
        return Ended(process.returncode or 0, timed_out, time.monotonic() - started)

    async def put_tree(self, path: PurePosixPath, archive: Path) -> None:
        self._fail_if("put")
        command = ("tar", "xf", str(archive), "-C", self._inside(str(path)))
        process = await asyncio.create_subprocess_exec(*command)
        assert await process.wait() == 0

    async def get_tree(self, path: PurePosixPath, archive: Path, *, names: tuple[str, ...], limit: int) -> None:
        raise NotImplementedError

    async def _copy(self, process: asyncio.subprocess.Process, output: BinaryIO, limit: int) -> None:
        assert process.stdout is not None
        while data := await process.stdout.read(1 << 16):
            output.write(data[: max(0, limit)])
            limit -= len(data)

    def _inside(self, text: str) -> str:
        return str(self.root / "work") if text == WORK else text

    def _fail_if(self, step: str | None) -> None:
        if step is not None and self._fault == step:
            raise LostError("a process was lost") if step == "lost" else GoneError("the sandbox has ended")


class Directories:
    """Opens them. `faults` say of one after the other how it fails."""

    def __init__(self) -> None:
        self.faults: list[str | None] = []
        self.opened: list[tuple[str, SandboxSpec]] = []
        self.sandboxes: list[DirectorySandbox] = []
        self.open_now = 0
        self.files: dict[str, str] = {}
        """What the image has in `/work`."""

    @asynccontextmanager
    async def _open(self, spec: SandboxSpec, purpose: str) -> AsyncIterator[DirectorySandbox]:
        fault = self.faults.pop(0) if self.faults else None
        self.opened.append((purpose, spec))
        if fault == "open":
            raise MachineError("there is no memory left")
        root = Path(tempfile.mkdtemp(prefix="belljar-test-"))
        for name, content in self.files.items():
            (root / "work" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "work" / name).write_text(content)
        sandbox = DirectorySandbox(root, fault)
        self.sandboxes.append(sandbox)
        self.open_now += 1
        try:
            yield sandbox
        finally:
            self.open_now -= 1
            shutil.rmtree(root)

    def __call__(self, spec: SandboxSpec, *, purpose: str):
        return self._open(spec, purpose)
