# Generated from aio/client.py by scripts/unasync.py: change that, and run this.
"""The client."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from typing import Self, Unpack

from belljar.client import calls
from belljar.client.following import Following
from belljar.client.model import Event
from belljar.client.options import ClaimOptions
from belljar.client.places import find_server
from belljar.client.sync.connection import Connection
from belljar.client.sync.sandbox import Sandbox


class Client:
    """Sandboxes of one server: a URL, or the state directory of one that runs on this machine.

    By default it is what BELLJAR_SERVER names, or else this user's own. A URL needs a token, which can be in
    BELLJAR_TOKEN. Every method raises ClientError. One for asyncio belongs to its event loop; threads can share others.
    """

    def __init__(self, server: str | PathLike[str] | None = None, *, token: str | None = None) -> None:
        self._connection = Connection(find_server(server, token))

    def claim(self, **options: Unpack[ClaimOptions]) -> Sandbox:
        """Make a sandbox, which is sealed and ready. As a context manager, it is deleted at the end."""
        return Sandbox(self._connection, self._connection.call(calls.claim(options)))

    def sandbox(self, name: str) -> Sandbox:
        """Return a sandbox that is there already."""
        return Sandbox(self._connection, self._connection.call(calls.get(name)))

    def sandboxes(self, *, status: str | None = None, labels: Mapping[str, str] | None = None) -> Iterator[Sandbox]:
        """Yield the sandboxes that there are, the oldest first."""
        cursor = None
        while True:
            states, cursor = self._connection.call(calls.page(status, labels or {}, cursor))
            for state in states:
                yield Sandbox(self._connection, state)
            if cursor is None:
                return

    def events(self, *, after: int | None = None, follow: bool = True) -> AbstractContextManager[Iterator[Event]]:
        """Follow what happens in all sandboxes: after an event, or from now on. See `Sandbox.events`."""
        return self._connection.follow(Following(None, after, follow=follow))

    def close(self) -> None:
        """Hang up. Sandboxes live on."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
