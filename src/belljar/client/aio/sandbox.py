"""A sandbox of a client."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Self, Unpack

from belljar.client import calls, networkcalls
from belljar.client.aio.connection import AsyncConnection
from belljar.client.asking import Call
from belljar.client.errors import NotFoundError
from belljar.client.following import Following
from belljar.client.model import (
    Denial,
    Event,
    ExecResult,
    Explanation,
    Flow,
    Grant,
    Layer,
    NetworkChange,
    NetworkPreview,
    Output,
    SandboxState,
    ServiceUsage,
)
from belljar.client.options import ExecOptions
from belljar.client.policy import NetworkPolicy
from belljar.client.running import OutputReader


class AsyncSandbox:
    """A sandbox. As a context manager, it is deleted at the end."""

    def __init__(self, connection: AsyncConnection, state: SandboxState) -> None:
        self._connection = connection
        self.id = state.id
        self.state = state
        """How it was when the server last told."""

        self.files = AsyncFiles(connection, state.id)

    async def reload(self) -> SandboxState:
        """Ask how it is."""
        return await self._now(calls.get(self.id))

    async def pause(self) -> SandboxState:
        """Stop every process inside where it is."""
        return await self._now(calls.pause(self.id))

    async def resume(self) -> SandboxState:
        """Let every process inside go on; the time to live begins anew."""
        return await self._now(calls.resume(self.id))

    async def refresh(self, *, ttl: float | None = None, hard_ttl: float | None = None) -> SandboxState:
        """Count the times to live from now on, with other lengths if some are given; 0 is for ever."""
        return await self._now(calls.refresh(self.id, ttl, hard_ttl))

    async def delete(self) -> None:
        """End it, with everything it held."""
        await self._connection.call(calls.delete(self.id))

    async def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Run a command to its end: a program and its arguments, or a text for the shell inside."""
        return await self._connection.call(calls.execute(self.id, command, options))

    @asynccontextmanager
    async def stream(
        self, command: str | Sequence[str], **options: Unpack[ExecOptions]
    ) -> AsyncIterator["AsyncRunning"]:
        """Run a command, whose output can be iterated over as it comes. Leaving before its end kills it."""
        async with self._connection.stream(calls.stream(self.id, command, options)) as chunks:
            yield AsyncRunning(chunks)

    async def get_network_policy(self) -> NetworkPolicy:
        """Return the policy as it was set, with its tag."""
        return await self._connection.call(networkcalls.get_policy(self.id))

    async def update_network_policy(self, policy: NetworkPolicy) -> NetworkChange:
        """Set another policy in its place, and end all grants; it is in force when this returns.

        Raises PolicyError, and PolicyChangedError if the policy has a tag, and the one in force has another.
        """
        return await self._connection.call(networkcalls.put_policy(self.id, policy))

    async def preview_network_policy(self, policy: NetworkPolicy) -> NetworkPreview:
        """Tell what another policy would change: which live flows and recent destinations."""
        return await self._connection.call(networkcalls.preview(self.id, policy))

    async def amend_network_policy(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        remove: Mapping[str, Any] | None = None,
        etag: str | None = None,
    ) -> NetworkChange:
        """Add entries to the policy, or take some away, in the shape of a document: `{"egress": {...}}`."""
        return await self._connection.call(networkcalls.amend(self.id, add or {}, remove or {}, etag))

    async def explain(self, destination: str) -> Explanation:
        """Tell what the policy in force says to a destination. Names are not resolved."""
        return await self._connection.call(networkcalls.explain(self.id, destination))

    async def grant(self, allow: str, seconds: float) -> Grant:
        """Open a destination for a time; it closes by itself, and its flows end."""
        return await self._connection.call(networkcalls.add_grant(self.id, allow, seconds))

    async def grants(self) -> list[Grant]:
        """Return what is open for a time."""
        return await self._connection.call(networkcalls.grants(self.id))

    async def end_grant(self, grant: str) -> None:
        """Close what is open for a time, before its time."""
        await self._connection.call(networkcalls.end_grant(self.id, grant))

    async def denials(self, limit: int = 100) -> list[Denial]:
        """Return what was denied lately, the newest first."""
        return await self._connection.call(calls.denials(self.id, limit))

    async def layers(self) -> list[Layer]:
        """Tell which layers hold the sandbox, from what is tried in it now. That leaves a few denials in its log."""
        return await self._connection.call(calls.layers(self.id))

    async def usage(self) -> list[ServiceUsage]:
        """List what was made of services that are brokers, and their budgets."""
        return await self._connection.call(calls.usage(self.id))

    async def flows(self) -> list[Flow]:
        """Return what is open now."""
        return await self._connection.call(calls.flows(self.id))

    def events(
        self, *, after: int | None = None, follow: bool = True
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """Follow what happens, after an event (0: all that is known) or from now on, until the sandbox is deleted.

        A connection that is lost is made anew, and nothing is missed. Without `follow`, it ends with what is known.
        """
        return self._connection.follow(Following(self.id, after, follow=follow))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(NotFoundError):  # its time was over, or somebody else was quicker
            await self.delete()

    async def _now(self, call: Call[SandboxState]) -> SandboxState:
        self.state = await self._connection.call(call)
        return self.state


class AsyncFiles:
    """The files of a sandbox, with the rights of the commands inside."""

    def __init__(self, connection: AsyncConnection, sandbox: str) -> None:
        self._connection, self._sandbox = connection, sandbox

    async def put(self, path: str, content: bytes | str, *, mode: int = 0o644) -> None:
        """Write a file; a relative path begins at the working directory. Raises PathError."""
        data = content.encode() if isinstance(content, str) else content
        await self._connection.call(calls.put_file(self._sandbox, path, data, mode))

    async def get(self, path: str) -> bytes:
        """Read a file. Raises PathError."""
        return await self._connection.call(calls.get_file(self._sandbox, path))


class AsyncRunning:
    """A command that runs."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks, self._reader = chunks, OutputReader()

    async def __aiter__(self) -> AsyncIterator[Output]:
        """Yield what it writes, as it comes."""
        async for chunk in self._chunks:
            for output in self._reader.feed(chunk):
                yield output

    async def wait(self) -> ExecResult:
        """Return how it ended, once it has; output that was not iterated over is passed by. Raises LostError."""
        async for _ in self:
            pass
        return self._reader.ended()
