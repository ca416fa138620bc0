"""Sandboxes as the harness uses them: made for one purpose, sealed, and gone at its end."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from belljar.runtime.commands import Ended
from belljar.sandbox.spec import Command, SandboxSpec


class HarnessSandbox(Protocol):
    """A sandbox that runs. Methods raise BelljarError: GoneError if all its processes have ended."""

    @property
    def id(self) -> str:
        """Its name."""

    async def run(
        self, command: Command, output: BinaryIO, *, stdin: bytes = b"", timeout: float | None = None, limit: int
    ) -> Ended:
        """Run a command to its end, or to the end of its time; then every process of it is killed.

        Standard output and error are written to a file as they come, up to `limit` bytes; the rest is thrown away.
        """

    async def put_tree(self, path: PurePosixPath, archive: Path) -> None:
        """Unpack a tar archive below a directory inside, with the agent's rights."""

    async def get_tree(self, path: PurePosixPath, archive: Path, *, names: tuple[str, ...], limit: int) -> None:
        """Write a tar archive of what is below a directory inside; what it holds is not to be trusted."""


class SandboxOpener(Protocol):
    """What makes sandboxes."""

    def __call__(self, spec: SandboxSpec, *, purpose: str) -> AbstractAsyncContextManager[HarnessSandbox]:
        """Make a sandbox that can reach nothing, and destroy it at the end. `purpose` is `work` or `judge`."""
