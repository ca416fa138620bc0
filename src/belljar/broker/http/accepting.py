"""Connections from the gateway, each begun in the turns of the sandbox that it comes from.

Connections wait in one queue of the kernel's, whatever sandbox they come from. So taking one from there has to be
cheap: the acceptor looks at the beginning of what the gateway has sent, which names the sandbox, and leaves all other
work to the sandbox's turns. asyncio's own server would set up a transport and a task for each connection first.
"""

import asyncio
import json
import os
import re
import socket
import struct
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from typing import Final

from belljar.broker.http.connection import Connection
from belljar.broker.http.fairloop import Accounts, owned_by

_MAX_AT_ONCE: Final = 32
_RETRY_SECONDS: Final = 0.5
"""Until the next try when the process has no descriptor left."""

_PEEKED: Final = 512
_SANDBOX: Final = re.compile(rb'\{"sandbox":("(?:[^"\\]|\\.)*")')
_CREDENTIALS: Final = struct.Struct("3i")


class Acceptor:
    """Takes connections from a listening unix socket."""

    def __init__(
        self, listener: socket.socket, accounts: Accounts, make: Callable[[], Connection], max_waiting: int
    ) -> None:
        """Accept from a socket that does not block; `max_waiting` connections of a sandbox may wait for its turns."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._accounts = accounts
        self._make = make
        self._max_waiting = max_waiting
        self._waiting = Counter[str]()
        self._tasks = set[asyncio.Task[None]]()
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Accept no more."""
        self._loop.remove_reader(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        for _ in range(_MAX_AT_ONCE):
            try:
                connected, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError:
                self._loop.remove_reader(self._listener)
                self._loop.call_later(_RETRY_SECONDS, self._loop.add_reader, self._listener, self._accept)
                return
            connected.setblocking(False)  # noqa: FBT003 - the standard library's interface
            if not _is_ours(connected):
                connected.close()
                continue
            self._begin(connected)

    def _begin(self, connected: socket.socket) -> None:
        sandbox = _sandbox_of(connected)
        if self._waiting[sandbox] >= self._max_waiting:
            connected.close()
            return
        self._waiting[sandbox] += 1
        context = copy_context()
        if sandbox:
            context.run(owned_by, self._accounts.of(sandbox))
        task = self._loop.create_task(self._connect(connected, sandbox), context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connected: socket.socket, sandbox: str) -> None:
        self._waiting[sandbox] -= 1
        if not self._waiting[sandbox]:
            del self._waiting[sandbox]
        await self._loop.connect_accepted_socket(self._make, connected)


def _is_ours(sock: socket.socket) -> bool:
    """Return whether the other side is of the same user as we are."""
    _, user, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return bool(user == os.geteuid())


def _sandbox_of(connected: socket.socket) -> str:
    """Return the sandbox that a connection says it comes from; nothing if it has not said so yet."""
    try:
        found = _SANDBOX.match(connected.recv(_PEEKED, socket.MSG_PEEK))
        return str(json.loads(found[1])) if found else ""
    except (OSError, ValueError):
        return ""
