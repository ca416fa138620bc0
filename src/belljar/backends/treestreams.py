"""Archives on their way between a caller's file and a process inside a sandbox, which may be under an agent's control.

Such a process can stop at any time, or go on for ever at one byte a minute. So it is not the whole transfer that has a
time limit, since a tree may have many gigabytes, but each portion of it: `_STALL_TIMEOUT` seconds of waiting for the
sandbox are allowed for every `_PORTION` bytes. The size of what comes out is bounded here, outside the sandbox.
"""

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from typing import Final

from belljar.backends.interface import LostError, PathError

_CHUNK: Final = 1 << 18
_PORTION: Final = 1 << 20
_STALL_TIMEOUT: Final = 60.0


class ArchivePipe:
    """A pipe, and a clock that runs while somebody waits for the process at its other end."""

    def __init__(self, receiving: FileIO, sending: FileIO) -> None:
        self.receiving, self.sending = receiving, sending
        self._waited = 0.0
        self._carried = 0

    def pieces(self, limit: int) -> Iterator[bytes]:
        """Yield what is written to the pipe until nobody can write any more; our own sending end has to be closed.

        Raises PathError beyond a limit, and LostError if it takes too long.
        """
        size = 0
        while True:
            self._wait({self.receiving.fileno(): select.POLLIN})
            piece = os.read(self.receiving.fileno(), _CHUNK)
            if not piece:
                return
            size += len(piece)
            if size > limit:
                raise PathError(f"what comes from inside has more than {limit} bytes")
            self._count(len(piece))
            yield piece

    def receive(self, archive: int, limit: int) -> None:
        """Write to a descriptor what comes through the pipe. Raises PathError beyond the limit, LostError."""
        for piece in self.pieces(limit):
            left = memoryview(piece)
            while left:
                left = left[os.write(archive, left) :]

    def send(self, archive: int, answer: int) -> None:
        """Write to the pipe what a descriptor has, until an answer can be read or nobody reads the pipe any more.

        Raises LostError.
        """
        sending = self.sending.fileno()
        os.set_blocking(sending, False)
        while piece := os.read(archive, _CHUNK):
            left = memoryview(piece)
            while left:
                ready = self._wait({sending: select.POLLOUT, answer: select.POLLIN})
                if answer in ready:
                    return
                try:
                    count = os.write(sending, left)
                except BlockingIOError:
                    continue
                except BrokenPipeError:
                    return
                self._count(count)
                left = left[count:]

    def _wait(self, events: dict[int, int]) -> dict[int, int]:
        poll = select.poll()
        for descriptor, event in events.items():
            poll.register(descriptor, event)
        began = time.monotonic()
        ready = dict(poll.poll(max(0.0, _STALL_TIMEOUT - self._waited) * 1000))
        self._waited += time.monotonic() - began
        if not ready:
            raise LostError(
                f"the sandbox has taken or given less than {_PORTION} bytes of an archive in {_STALL_TIMEOUT:g} "
                "seconds; look at the load of this machine, and at what is mounted inside"
            )
        return ready

    def _count(self, size: int) -> None:
        self._carried += size
        if self._carried >= _PORTION:
            self._carried, self._waited = 0, 0.0


@contextmanager
def archive_pipe() -> Iterator[ArchivePipe]:
    """Make a pipe. Each end may be closed before."""
    receiving, sending = os.pipe()
    with FileIO(receiving, "rb") as one, FileIO(sending, "wb") as other:
        yield ArchivePipe(one, other)
