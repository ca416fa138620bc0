"""Moving bytes between two connections, without looking at them and without copying them.

Theory of operation
-------------------
Each direction is a pump: `splice` from one socket into a pipe, and from the pipe into the other, until the kernel says
"would block". Back-pressure is the kernel's own: a pump takes from its source only when its pipe is empty, so
a sink that does not read stops the source. A pump borrows its pipe only while bytes are in it; an idle connection
holds two sockets and no buffer.

The end of one direction is passed on as such (half-close), and so is a reset: whatever goes wrong with one socket, the
other is reset too, so that nobody takes a broken stream for a complete one.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from belljar.gateway.loop import Loop
from belljar.gateway.streams import Stream

PIPE_BYTES: Final = 1 << 18
_ROUNDS: Final = 8  # before others get a turn
_POOL: Final = 64
_FLAGS: Final = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class Pipes:
    """A pool of empty pipes."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []

    def borrow(self) -> tuple[int, int]:
        """Return the two ends of an empty pipe: read, write."""
        if self._free:
            return self._free.pop()
        ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # a user's limit on pipe memory makes it smaller, not absent
            fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return ends

    def give_back(self, ends: tuple[int, int], *, empty: bool) -> None:
        """Take a pipe back; one that still holds bytes is closed, lest they turn up in another connection."""
        if empty and len(self._free) < _POOL:
            self._free.append(ends)
        else:
            os.close(ends[0])
            os.close(ends[1])

    def close(self) -> None:
        """Close what is in the pool."""
        while self._free:
            self.give_back(self._free.pop(), empty=False)


class Pump:
    """One direction of a relay."""

    __slots__ = ("_in_pipe", "_pipe", "_relay", "_sink", "_source", "bytes", "finished")

    def __init__(self, relay: "Relay", source: Stream, sink: Stream) -> None:
        self._relay, self._source, self._sink = relay, source, sink
        self._pipe: tuple[int, int] | None = None
        self._in_pipe = 0
        self.bytes = 0
        self.finished = False

    def start(self) -> None:
        """Begin, and go on whenever there is something to read or room to write."""
        self._source.watch.on_readable = self._sink.watch.on_writable = self.run
        self.run()

    def pause(self) -> None:
        """Stop, with nothing in the pipe that would be lost; only for a pump that has not moved anything yet."""
        self._source.watch.on_readable = self._sink.watch.on_writable = None

    def run(self) -> None:
        """Move what can be moved now."""
        if self.finished:
            return
        try:
            for _ in range(_ROUNDS):
                if not self._fill():
                    return
                self._empty()
        except BlockingIOError:
            return
        except OSError:
            self._relay.abort()
        else:
            self._relay.loop.call_soon(self.run)
        finally:
            if not self._in_pipe:
                self.release()

    def _fill(self) -> bool:
        """Take from the source; tell whether there is anything to pass on."""
        if self._in_pipe:
            return True
        if self._pipe is None:
            self._pipe = self._relay.pipes.borrow()
        self._in_pipe = os.splice(self._source.fileno(), self._pipe[1], PIPE_BYTES, flags=_FLAGS)
        if not self._in_pipe:
            self._finish()
        return self._in_pipe > 0

    def _empty(self) -> None:
        while self._in_pipe and self._pipe is not None:
            moved = os.splice(self._pipe[0], self._sink.fileno(), self._in_pipe, flags=_FLAGS)
            self._in_pipe -= moved
            self.bytes += moved

    def _finish(self) -> None:
        self.finished = True
        self._source.watch.on_readable = self._sink.watch.on_writable = None
        self._sink.end()
        self._relay.one_is_finished()

    def release(self) -> None:
        """Give the pipe back."""
        if self._pipe is not None:
            self._relay.pipes.give_back(self._pipe, empty=not self._in_pipe)
            self._pipe = None


class Relay:
    """Two connections joined to one."""

    __slots__ = ("_ended", "client", "down", "loop", "on_end", "pipes", "up", "upstream")

    def __init__(self, loop: Loop, pipes: Pipes, client: Stream, upstream: Stream) -> None:
        self.loop, self.pipes = loop, pipes
        self.client, self.upstream = client, upstream
        self.up = Pump(self, client, upstream)
        self.down = Pump(self, upstream, client)
        self.on_end: Callable[[], None] = _nothing
        self._ended = False

    def one_is_finished(self) -> None:
        """Close both connections in an orderly way once both directions have ended."""
        if self.up.finished and self.down.finished:
            self._end()

    def close(self) -> None:
        """Close both connections in an orderly way; for whoever has moved the bytes without pumps."""
        self._end()

    def abort(self) -> None:
        """Reset both connections."""
        if not self._ended:
            self.client.reset()
            self.upstream.reset()
            self._end()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        for pump in (self.up, self.down):
            pump.finished = True
            pump.release()
        self.client.close()
        self.upstream.close()
        self.on_end()


def _nothing() -> None:
    pass
