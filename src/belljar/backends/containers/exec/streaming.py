"""The caller's three descriptors, joined to the connection that is a command's streams.

An engine holds its command back when nobody takes the output, and so do we while our reader takes nothing. But once the
command has ended, whatever the engine still has is taken at once, and kept: Podman cannot end a container while output
of it is stuck, and Docker throws away what was not taken in two seconds.
"""

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from belljar.backends.containers.exec.frames import STDERR, STDOUT, FrameReader
from belljar.backends.containers.exec.outputs import Outputs
from belljar.backends.containers.exec.terminal import Input, Source
from belljar.backends.interface import Streams

UNREAD: Final = b"podman: the command has not read all of its input, and the last of its output may be missing\n"

_CHUNK: Final = 65536
_HELD_BY_A_PIPE: Final = 65536
_MOST_KEPT: Final = 8 << 20
"""Far beyond what an engine has in its buffers: only what an ended command has left behind writes more."""


class StreamPump:
    """Carries bytes from the caller to the command, and from the command to the caller."""

    def __init__(
        self,
        connection: socket.socket,
        early: bytes,
        streams: Streams,
        frames: FrameReader | None,
        source: Source | None = None,
    ) -> None:
        """Without `frames` all output is one: that of a terminal. Input comes from the source, if there is one."""
        connection.settimeout(0)
        self._connection, self._frames = connection, frames
        self.is_open = True
        """Until the output has ended."""
        self._most_kept = 1
        self._outputs = Outputs(streams.stdout, streams.stderr)
        self.looks_for_input = source is not None or os.isatty(streams.stdin)
        """Whether it has to be looked, now and then, whether there is input to carry."""
        self._source: Source | None = Input(streams.stdin) if source is None else source
        self._input = memoryview(b"")
        self._sent = 0
        self._take(early)

    def carry(self, ended: int | None, look: Callable[[], float | None], changed: int | None = None) -> None:
        """Carry until the output has ended, or a descriptor becomes readable.

        `look` is called in between, also when another descriptor becomes readable, and says how many seconds later it
        wants to be called again.
        """
        self._most_kept = 1  # nothing more is taken before that is written
        while self.is_open:
            ready = self._poll(look(), ended, changed)
            self._carry(ready)
            if ended in ready:
                return

    def drain(self, seconds: float) -> None:
        """Carry until the output has ended, whether it is read or not; or until it is time to give up."""
        self._most_kept = _MOST_KEPT
        deadline = time.monotonic() + seconds
        while self.is_open and (left := deadline - time.monotonic()) > 0:
            self._carry(self._poll(left))

    def flush(self, patience: float | None) -> None:
        """Write what is left; with patience only until the reader has taken nothing for so many seconds."""
        while (target := self._outputs.target()) is not None:
            poll = select.poll()
            poll.register(target, select.POLLOUT)
            if not poll.poll(_milliseconds(patience)):
                return
            self._outputs.write()

    def close(self) -> None:
        """Let go of everything, the caller's streams first: whoever sees their end has seen the last of the command."""
        self._outputs.close()
        self._end_input()
        self._connection.close()

    def _poll(self, seconds: float | None, ended: int | None = None, changed: int | None = None) -> dict[int, int]:
        poll, target = select.poll(), self._outputs.target()
        takes = select.POLLIN if self._outputs.size < self._most_kept else 0
        poll.register(self._connection, takes | (select.POLLOUT if self._input else 0))
        if self._source is not None and not self._input and (stdin := self._source.fileno()) >= 0:
            poll.register(stdin, select.POLLIN)
        if target is not None:
            poll.register(target, select.POLLOUT)
        for other in (ended, changed):
            if other is not None:
                poll.register(other, select.POLLIN)
        return dict(poll.poll(_milliseconds(seconds)))

    def _carry(self, ready: dict[int, int]) -> None:
        if self._outputs.target() in ready:
            self._outputs.write()
        if self._source is not None and (stdin := self._source.fileno()) in ready:
            self._read_input(self._source, ready[stdin])
        if self._input:
            self._send_input()
        if ready.get(self._connection.fileno(), 0) & ~select.POLLOUT:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:  # the engine has closed it, and had not read all that we sent
            data = b""
        self._take(data)
        if not data:
            self.is_open = False
            if self._frames is not None and self._frames.was_reset and self._sent > _HELD_BY_A_PIPE:
                self._outputs.put(STDERR, UNREAD)

    def _take(self, data: bytes) -> None:
        if self._source is not None:
            data = self._source.shown(data)
        for output, piece in [(STDOUT, data)] if self._frames is None else self._frames.feed(data):
            self._outputs.put(output, piece)

    def _read_input(self, source: Source, events: int) -> None:
        try:
            data = source.read(_CHUNK, events)
        except OSError:  # a terminal that has hung up, or nothing that can be read
            data = b""
        if data is None:
            return
        self._input = memoryview(data)
        if not data:
            self._end_input()
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_WR)

    def _send_input(self) -> None:
        try:
            count = self._connection.send(self._input)
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more; what was written before can still come
            self._end_input()
            return
        self._sent += count
        self._input = self._input[count:]

    def _end_input(self) -> None:
        self._input = memoryview(b"")
        if self._source is not None:
            self._source.close()
            self._source = None


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
