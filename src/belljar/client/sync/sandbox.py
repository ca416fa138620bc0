# Generated from aio/sandbox.py by scripts/unasync.py: change that, and run this.
"""A sandbox of a client."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Self, Unpack

from belljar.client import calls, networkcalls
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
from belljar.client.sync.connection import Connection


class Sandbox:
    """A sandbox. As a context manager, it is deleted at the end."""

    def __init__(self, connection: Connection, state: SandboxState) -> None:
        self._connection = connection
        self.id = state.id
        self.state = state
        """How it was when the server last told."""

        self.files = Files(connection, state.id)

    def reload(self) -> SandboxState:
        """Ask how it is."""
        return self._now(calls.get(self.id))

    def pause(self) -> SandboxState:
        """Stop every process inside where it is."""
        return self._now(calls.pause(self.id))

    def resume(self) -> SandboxState:
        """Let every process inside go on; the time to live begins anew."""
        return self._now(calls.resume(self.id))

    def refresh(self, *, ttl: float | None = None, hard_ttl: float | None = None) -> SandboxState:
        """Count the times to live from now on, with other lengths if some are given; 0 is for ever."""
        return self._now(calls.refresh(self.id, ttl, hard_ttl))

    def delete(self) -> None:
        """End it, with everything it held."""
        self._connection.call(calls.delete(self.id))

    def exec(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> ExecResult:
        """Run a command to its end: a program and its arguments, or a text for the shell inside."""
        return self._connection.call(calls.execute(self.id, command, options))

    @contextmanager
    def stream(self, command: str | Sequence[str], **options: Unpack[ExecOptions]) -> Iterator["Running"]:
        """Run a command, whose output can be iterated over as it comes. Leaving before its end kills it."""
        with self._connection.stream(calls.stream(self.id, command, options)) as chunks:
            yield Running(chunks)

    def get_network_policy(self) -> NetworkPolicy:
        """Return the policy as it was set, with its tag."""
        return self._connection.call(networkcalls.get_policy(self.id))

    def update_network_policy(self, policy: NetworkPolicy) -> NetworkChange:
        """Set another policy in its place, and end all grants; it is in force when this returns.

        Raises PolicyError, and PolicyChangedError if the policy has a tag, and the one in force has another.
        """
        return self._connection.call(networkcalls.put_policy(self.id, policy))

    def preview_network_policy(self, policy: NetworkPolicy) -> NetworkPreview:
        """Tell what another policy would change: which live flows and recent destinations."""
        return self._connection.call(networkcalls.preview(self.id, policy))

    def amend_network_policy(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        remove: Mapping[str, Any] | None = None,
        etag: str | None = None,
    ) -> NetworkChange:
        """Add entries to the policy, or take some away, in the shape of a document: `{"egress": {...}}`."""
        return self._connection.call(networkcalls.amend(self.id, add or {}, remove or {}, etag))

    def explain(self, destination: str) -> Explanation:
        """Tell what the policy in force says to a destination. Names are not resolved."""
        return self._connection.call(networkcalls.explain(self.id, destination))

    def grant(self, allow: str, seconds: float) -> Grant:
        """Open a destination for a time; it closes by itself, and its flows end."""
        return self._connection.call(networkcalls.add_grant(self.id, allow, seconds))

    def grants(self) -> list[Grant]:
        """Return what is open for a time."""
        return self._connection.call(networkcalls.grants(self.id))

    def end_grant(self, grant: str) -> None:
        """Close what is open for a time, before its time."""
        self._connection.call(networkcalls.end_grant(self.id, grant))

    def denials(self, limit: int = 100) -> list[Denial]:
        """Return what was denied lately, the newest first."""
        return self._connection.call(calls.denials(self.id, limit))

    def layers(self) -> list[Layer]:
        """Tell which layers hold the sandbox, from what is tried in it now. That leaves a few denials in its log."""
        return self._connection.call(calls.layers(self.id))

    def usage(self) -> list[ServiceUsage]:
        """List what was made of services that are brokers, and their budgets."""
        return self._connection.call(calls.usage(self.id))

    def flows(self) -> list[Flow]:
        """Return what is open now."""
        return self._connection.call(calls.flows(self.id))

    def events(self, *, after: int | None = None, follow: bool = True) -> AbstractContextManager[Iterator[Event]]:
        """Follow what happens, after an event (0: all that is known) or from now on, until the sandbox is deleted.

        A connection that is lost is made anew, and nothing is missed. Without `follow`, it ends with what is known.
        """
        return self._connection.follow(Following(self.id, after, follow=follow))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(NotFoundError):  # its time was over, or somebody else was quicker
            self.delete()

    def _now(self, call: Call[SandboxState]) -> SandboxState:
        self.state = self._connection.call(call)
        return self.state


class Files:
    """The files of a sandbox, with the rights of the commands inside."""

    def __init__(self, connection: Connection, sandbox: str) -> None:
        self._connection, self._sandbox = connection, sandbox

    def put(self, path: str, content: bytes | str, *, mode: int = 0o644) -> None:
        """Write a file; a relative path begins at the working directory. Raises PathError."""
        data = content.encode() if isinstance(content, str) else content
        self._connection.call(calls.put_file(self._sandbox, path, data, mode))

    def get(self, path: str) -> bytes:
        """Read a file. Raises PathError."""
        return self._connection.call(calls.get_file(self._sandbox, path))


class Running:
    """A command that runs."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._reader = chunks, OutputReader()

    def __iter__(self) -> Iterator[Output]:
        """Yield what it writes, as it comes."""
        for chunk in self._chunks:
            yield from self._reader.feed(chunk)

    def wait(self) -> ExecResult:
        """Return how it ended, once it has; output that was not iterated over is passed by. Raises LostError."""
        for _ in self:
            pass
        return self._reader.ended()
