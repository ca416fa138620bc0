"""Non-blocking sockets with the three things a gateway does to them: read, write, and end in the right way."""

import errno
import os
import socket
import struct
from collections.abc import Callable
from typing import Final, Protocol

from belljar.gateway.io.loop import Loop
from belljar.names import Address

CHUNK: Final = 65536
_RESET: Final = struct.pack("ii", 1, 0)
_CONNECTING: Final = (errno.EINPROGRESS, errno.EALREADY)

_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)
"""A peer that is gone without a word is found out after two minutes. One that is merely idle may be so for ever."""


class Keeping(Protocol):
    """Somebody who accounts for bytes that stay in memory."""

    def keep(self, data: bytes) -> bytes:
        """Account for some more, and return them. Raises OSError."""

    def let_go(self) -> None:
        """Take note that none is kept any more."""


class Stream:
    """A connected TCP socket that belongs to a loop."""

    __slots__ = ("_has_read", "_loop", "_unread", "descriptor", "kept", "on_close", "socket", "watch")

    def __init__(self, loop: Loop, connected: socket.socket) -> None:
        self._loop = loop
        self.socket = connected
        self.descriptor = connected.fileno()
        """-1 when closed."""
        self.watch = loop.watch_descriptor(self.descriptor)
        self.on_close: Callable[[], None] | None = None
        self.kept: Keeping | None = None
        """Where bytes are accounted for that were read and stay in memory; without one, they are not."""
        self._has_read = False
        self._unread = b""

    def fileno(self) -> int:
        """Return the descriptor, -1 when closed."""
        return self.descriptor

    async def read(self, size: int = CHUNK) -> bytes:
        """Return what has arrived, at least a byte; nothing at the end of the stream.

        Whoever always has something to read gives way to others here; not for the first read, so that connections are
        decided in the order in which they were accepted.
        """
        if self._has_read and self._loop.clock() >= self._loop.slice_ends:
            await self._loop.give_way()
        self._has_read = True
        while (data := self.read_now(size)) is None:
            await self._loop.readable(self.watch)
        return data

    async def read_to_keep(self) -> bytes:
        """Return what has arrived, as `read` does, and account for it until it is let go, or the stream is closed.

        Raises OSError if that is too much.
        """
        data = await self.read()
        return data if self.kept is None else self.kept.keep(data)

    def read_now(self, size: int = CHUNK) -> bytes | None:
        """Return what has arrived, as `read` does, but do not wait for it: None if there is nothing yet."""
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        try:
            return self.socket.recv(size)
        except BlockingIOError:
            return None

    async def peek(self, size: int) -> bytes:
        """Return what has arrived, as `read` does, and leave it in the socket."""
        while True:
            try:
                return self.socket.recv(size, socket.MSG_PEEK)
            except BlockingIOError:
                await self._loop.readable(self.watch)

    def unread(self, data: bytes) -> None:
        """Put bytes back, to be read again."""
        self._unread = data + self._unread

    async def write(self, data: bytes) -> None:
        """Send all of it."""
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                await self._loop.writable(self.watch)

    def end(self) -> None:
        """Say that nothing more will be written."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise

    def close(self) -> None:
        """Close in an orderly way; what was written still arrives."""
        if self.descriptor != -1:
            self._loop.forget(self.descriptor)
            self.descriptor = -1
            os.close(self.socket.detach())
            if self.kept is not None:
                self.kept.let_go()
            if self.on_close is not None:
                self.on_close()

    def reset(self) -> None:
        """Close with a reset, so that the other side cannot take it for an orderly end."""
        if self.descriptor != -1:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.close()


def tune(connected: socket.socket) -> None:
    """Set up a connection, or a listener and so all it accepts: without delay, and a peer that vanishes is noticed."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for level, option, value in _KEEPALIVE:
        connected.setsockopt(level, option, value)


async def connect(loop: Loop, address: Address, port: int) -> Stream:
    """Connect to an address. Raises OSError."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    dialled = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        tune(dialled)
        stream = Stream(loop, dialled)
    except OSError:
        dialled.close()
        raise
    where = (str(address), port)
    try:
        while (status := dialled.connect_ex(where)) in _CONNECTING:
            await loop.writable(stream.watch)
    except BaseException:
        stream.close()
        raise
    if status not in (0, errno.EISCONN):
        stream.close()
        raise OSError(status, os.strerror(status))
    return stream


def describe(error: BaseException) -> str:
    """Return what went wrong on the way to a destination, in words."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or "no answer in time"
