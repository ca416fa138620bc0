"""Pipes, through which the kernel moves bytes from one socket to another.

A pipe is borrowed while bytes are in it, and given back empty. What is in pipes is what a sandbox makes the gateway
hold for it; beyond its limit it still gets pipes, but small ones: its connections go on, one page at a time.
"""

import fcntl
import os
from contextlib import suppress
from typing import Final, NamedTuple

from belljar.gateway.io.budget import Buffers, Share

PIPE_BYTES: Final = 1 << 16
"""More than that makes a relay no quicker, and its steps so long that neighbours notice."""

SMALL_PIPE_BYTES: Final = 1 << 12
_POOL: Final = 8


class NoPipeError(OSError):
    """There is no pipe to be had now."""


class Pipe(NamedTuple):
    """The two ends of a pipe, and how much it may hold."""

    read_end: int
    write_end: int
    size: int


class Pipes:
    """The pipes of one sandbox."""

    def __init__(self, share: Share, buffers: Buffers) -> None:
        self._share = share
        self._buffers = buffers
        self._free: list[Pipe] = []

    def borrow(self) -> Pipe:
        """Return an empty pipe. Raises NoPipeError."""
        pipe = self._free.pop() if self._free and self._buffers.left >= PIPE_BYTES else self._make()
        self._buffers.left -= pipe.size
        return pipe

    def give_back(self, pipe: Pipe, *, empty: bool) -> None:
        """Take a pipe back; one that still holds bytes is closed, lest they turn up in another connection."""
        self._buffers.left += pipe.size
        if empty and pipe.size == PIPE_BYTES and len(self._free) < _POOL:
            self._free.append(pipe)
        else:
            self._close(pipe)

    def close(self) -> None:
        """Close those that nobody has borrowed."""
        while self._free:
            self._close(self._free.pop())

    def _make(self) -> Pipe:
        size = PIPE_BYTES if self._buffers.left >= PIPE_BYTES else SMALL_PIPE_BYTES
        if not self._share.take(2):
            raise NoPipeError
        try:
            read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._share.give_back(2)
            raise NoPipeError from error
        with suppress(OSError):  # beyond the kernel's limit for a user, a pipe stays smaller than this
            fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, size)
        return Pipe(read_end, write_end, size)

    def _close(self, pipe: Pipe) -> None:
        os.close(pipe.read_end)
        os.close(pipe.write_end)
        self._share.give_back(2)
