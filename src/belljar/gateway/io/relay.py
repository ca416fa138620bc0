"""Moving bytes between two connections, without looking at them and without copying them.

Theory of operation
-------------------
Each direction is a pump: `splice` from one socket into a pipe, and from the pipe into the other, until the kernel says
"would block". Back-pressure is the kernel's own: a pump takes from its source only when its pipe is empty, so
a sink that does not read stops the source. A pump borrows its pipe only while bytes are in it; an idle connection
holds two sockets and no buffer.

The end of one direction is passed on as such (half-close), and so is a reset: whatever goes wrong with one socket, the
other is reset too, so that nobody takes a broken stream for a complete one. A pump finds out about a broken source when
it has read what came before. One that has nothing more to read, or cannot pass on what it has, would not find out; so
the loop tells the relay (`on_error`), and then the reset overtakes what is still on its way.
"""

import os
from collections.abc import Callable
from typing import Final

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.pipes import PIPE_BYTES, NoPipeError, Pipe, Pipes
from belljar.gateway.io.streams import Stream

_ROUNDS: Final = 8  # before the sandbox's other connections get a turn
_FLAGS: Final = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE
_NO_PIPE_SECONDS: Final = 0.05


class Pump:
    """One direction of a relay."""

    __slots__ = ("_in_pipe", "_pipe", "_pipes", "_relay", "_resuming", "_sink", "_source", "bytes", "finished")

    def __init__(self, relay: "Relay", pipes: Pipes, source: Stream, sink: Stream) -> None:
        self._relay, self._pipes, self._source, self._sink = relay, pipes, source, sink
        self._pipe: Pipe | None = None
        self._in_pipe = 0
        self._resuming = False
        self.bytes = 0
        self.finished = False

    def start(self) -> None:
        """Begin, and go on whenever there is something to read, or room to write what was read."""
        if self.finished:  # the other direction may have met the end of the relay already
            return
        self._source.watch.on_error = self._source_is_broken
        self.run()

    def pause(self) -> None:
        """Stop, with nothing in the pipe that would be lost; only for a pump that has not moved anything yet."""
        self._source.watch.on_readable = self._sink.watch.on_writable = None

    def run(self) -> None:
        """Move what can be moved now."""
        if self.finished or self._resuming:
            return
        try:
            for _ in range(_ROUNDS):
                if not self._fill():
                    return
                self._empty()
                if self._relay.loop.clock() >= self._relay.loop.slice_ends:
                    break
        except BlockingIOError:
            self._wait()
        except NoPipeError:
            self._resuming = True
            self._relay.loop.call_later(_NO_PIPE_SECONDS, self._resume)
        except OSError:
            self._relay.abort()
        else:
            self._resuming = True
            self._relay.loop.call_soon(self._resume)
        finally:
            if self._pipe is not None and not self._in_pipe:
                self._pipes.give_back(self._pipe, empty=True)
                self._pipe = None

    def _wait(self) -> None:
        """Wait for the sink while there are bytes for it, else for the source."""
        stuck = self._in_pipe > 0
        self._source.watch.on_readable = None if stuck else self.run
        self._sink.watch.on_writable = self.run if stuck else None

    def _resume(self) -> None:
        self._resuming = False
        self.run()

    def _fill(self) -> bool:
        """Take from the source; tell whether there is anything to pass on."""
        if self._in_pipe:
            return True
        if self._pipe is None:
            self._pipe = self._pipes.borrow()
        self._in_pipe = os.splice(self._source.descriptor, self._pipe.write_end, PIPE_BYTES, flags=_FLAGS)
        if not self._in_pipe:
            self._finish()
        return self._in_pipe > 0

    def _empty(self) -> None:
        while self._in_pipe and self._pipe is not None:
            moved = os.splice(self._pipe.read_end, self._sink.descriptor, self._in_pipe, flags=_FLAGS)
            self._in_pipe -= moved
            self.bytes += moved

    def _finish(self) -> None:
        self.finished = True
        self._source.watch.on_readable = self._sink.watch.on_writable = None
        self._relay.pass_on_end(self._sink)

    def _source_is_broken(self) -> None:
        if self.finished or self._in_pipe:
            self._relay.abort()

    def end(self) -> None:
        """Do nothing more, and let go of everything."""
        self.finished = True
        if self._pipe is not None:
            self._pipes.give_back(self._pipe, empty=not self._in_pipe)
            self._pipe = None
        del self._relay  # or it would take a garbage collection to be rid of both


class Relay:
    """Two connections joined to one."""

    __slots__ = ("_ended", "client", "down", "loop", "on_end", "up", "upstream")

    def __init__(self, loop: Loop, pipes: Pipes, client: Stream, upstream: Stream) -> None:
        self.loop = loop
        self.client, self.upstream = client, upstream
        self.up = Pump(self, pipes, client, upstream)
        self.down = Pump(self, pipes, upstream, client)
        self.on_end: Callable[[], None] = _nothing
        self._ended = False

    def pass_on_end(self, sink: Stream) -> None:
        """Tell one side that the other will not say more; close both in an orderly way if both have said that."""
        if self.up.finished and self.down.finished:
            self._end()
        else:
            sink.end()

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
        self.up.end()
        self.down.end()
        self.client.close()
        self.upstream.close()
        self.on_end()


def _nothing() -> None:
    pass
