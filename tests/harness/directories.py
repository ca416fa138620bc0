"""Sandboxes without walls: directories that stand for `/work` and `/tmp`, in which commands are run as they are.

They do what the harness expects of a sandbox, and can be told to fail as real ones do.
"""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from belljar.backends.interface import GoneError, LostError, MachineError
from belljar.harness.sandboxes import NO_SERVICES
from belljar.runtime.commands import Ended
from belljar.sandbox.spec import Command, SandboxSpec

WORK = "/work"


class DirectorySandbox:
    """One of them. `fault` is the step at which it ends: `put`, `run` or `lost`."""

    def __init__(self, root: Path, fault: str | None) -> None:
        self.id, self.root, self._fault, self._gone = root.name, root, fault, False
        self.commands: list[Command] = []
        self.environment: dict[str, str] = {}

    async def run(
        self,
        command: Command,
        output: BinaryIO,
        *,
        stdin: bytes = b"",
        timeout: float | None = None,
        limit: int,
        errors: BinaryIO | None = None,
    ) -> Ended:
        self.commands.append(command)
        if self._gone:
            raise GoneError("the sandbox has ended")
        self._fail_if("lost" if command.workdir else "step")
        variables = {name: self._inside(value) for name, value in command.environment.items()}
        started = time.monotonic()
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._inside(argument) for argument in command.arguments),
                cwd=self._inside(str(command.workdir)) if command.workdir else self.root,
                env={"PATH": os.environ["PATH"], **self.environment, **variables},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT if errors is None else asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Ended(127, timed_out=False, seconds=0)
        assert process.stdin is not None
        process.stdin.write(stdin)
        process.stdin.close()
        timed_out = False
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(
                    _copy(process.stdout, output, limit), _copy(process.stderr, errors, limit), process.wait()
                )
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

    def _inside(self, text: str) -> str:
        text = text.replace("kill -KILL -1", ":")  # the processes of a command are killed at its end anyway
        assert "kill" not in text
        return str(self.root / "work") if text == WORK else text.replace("/tmp/", f"{self.root}/tmp/")

    def _fail_if(self, step: str | None) -> None:
        if step is not None and self._fault == step:
            self._gone = step != "lost"
            raise GoneError("the sandbox has ended") if self._gone else LostError("a process was lost")


async def _copy(source: asyncio.StreamReader | None, output: BinaryIO | None, limit: int) -> None:
    while source is not None and output is not None and (data := await source.read(1 << 16)):
        output.write(data[: max(0, limit)])
        limit -= len(data)


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
    async def _open(
        self, spec: SandboxSpec, purpose: str, services: Mapping[str, Path]
    ) -> AsyncIterator[DirectorySandbox]:
        fault = self.faults.pop(0) if self.faults else None
        self.opened.append((purpose, spec))
        if fault == "open":
            raise MachineError("there is no memory left")
        root = Path(tempfile.mkdtemp(prefix="directory-", dir="/var/tmp"))  # what is in /tmp is mapped into it
        (root / "tmp").mkdir()
        for name, content in self.files.items() if purpose == "judge" else ():
            (root / "work" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "work" / name).write_text(content)
        sandbox = DirectorySandbox(root, fault)
        self.sandboxes.append(sandbox)
        self.open_now += 1
        try:
            async with AsyncExitStack() as stack:
                for name, socket in services.items():
                    port = await stack.enter_async_context(_relayed(socket))
                    sandbox.environment[f"BELLJAR_{name.upper()}_URL"] = f"http://127.0.0.1:{port}"
                yield sandbox
        finally:
            self.open_now -= 1
            shutil.rmtree(root)

    def __call__(self, spec: SandboxSpec, *, purpose: str, services: Mapping[str, Path] = NO_SERVICES):
        return self._open(spec, purpose, services)


@asynccontextmanager
async def _relayed(path: Path) -> AsyncIterator[int]:
    """A port that leads to a unix socket, as a name below `belljar.internal` does in a real sandbox."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(path)

        async def forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with suppress(OSError):
                while data := await source.read(1 << 16):
                    target.write(data)
                    await target.drain()
            target.close()

        await asyncio.gather(forward(reader, back), forward(there, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
