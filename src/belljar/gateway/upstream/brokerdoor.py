"""The broker, as whoever owns a gateway sees it: a socket to connect to, and a process that is started for it.

Theory of operation
-------------------
The socket listens from the beginning, and the process is started for the first connection, which waits in the kernel
for that long: who uses no broker does not pay for one. Its file is removed as soon as it is held; a gateway connects
through the descriptor, here or in a worker that was given it.

A broker that dies closes the connections it had, and the gateway tells their clients that it has (502). The next
connection starts another. One that dies young again and again is not started for a while, and connections are closed
that come meanwhile: a door that does not open is said to be closed. What it has counted is in a directory of its
owner's, so no budget begins anew.

It says what has become of requests, a line of JSON each; the end of that stream is its end.
"""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from belljar.gateway.audit.events import ServiceUsed
from belljar.gateway.io.loop import Loop, Watch, log_bug
from belljar.linux.descriptors import is_readable

if TYPE_CHECKING:
    import subprocess

_LOG: Final = logging.getLogger("belljar")
_SOCKET: Final = "broker.sock"
_WAITING: Final = 4096
"""Connections that wait for a broker to be started."""

_SECONDS_TO_START: Final = 60.0
_SECONDS_TO_END: Final = 1.0
_YOUNG_SECONDS: Final = 2.0
_MOST_YOUNG_DEATHS: Final = 2
"""In a row. One can have been killed by somebody."""

_LONGEST_LINE: Final = 1 << 16
_READ_BYTES: Final = 1 << 16
_UNTOLD: Final = {"input_tokens": 0, "output_tokens": 0, "bytes_up": 0, "bytes_down": 0}


class BrokerDoor:
    """Where a gateway reaches the broker. Everything happens on the loop's thread."""

    def __init__(self, loop: Loop, state: Path, on_event: Callable[[dict[str, Any]], None]) -> None:
        """Have somewhere to connect to. Events of the broker are told as they come.

        `state` is a directory for what it counts, which is there, nobody else's, and seen by no sandbox.
        """
        self._loop, self._state, self._on_event = loop, state, on_event
        self._listener, self.descriptor = _listen(state)
        self._process: subprocess.Popen[bytes] | None = None
        self._said: socket.socket | None = None
        self._unread = bytearray()
        self._born = -_YOUNG_SECONDS
        self._young_deaths = 0
        """How many brokers in a row have died young."""
        self._is_closed = False
        self._may_start = True
        """Whether a broker may be started from now on; not if what it would import can have been written to."""
        self._wait()

    def start(self) -> None:
        """Start the broker without waiting for a connection."""
        self._loop.unwatch(self._listener)
        self._start()

    def start_now_or_never(self) -> None:
        """Start the broker and wait until it has imported what it needs, for nobody may write to that later."""
        self.start()
        self._may_start = False
        if self._said is not None:
            is_readable(self._said.fileno(), _SECONDS_TO_START)

    def close(self) -> None:
        """End the broker, and have nobody connect any more."""
        self._is_closed = True
        self._loop.unwatch(self._listener)
        self._listener.close()
        os.close(self.descriptor)
        self._hear_last_words()
        self._reap()

    def _hear_last_words(self) -> None:
        """Have the broker end, and take what it still has to say of requests; not for long."""
        if self._process is None or self._said is None:
            return
        self._process.terminate()
        given_up = time.monotonic() + _SECONDS_TO_END
        with suppress(OSError):
            while (left := given_up - time.monotonic()) > 0 and is_readable(self._said.fileno(), left):
                if not (data := self._said.recv(_READ_BYTES)):
                    return
                self._unread += data
                self._take_lines()

    def _wait(self) -> None:
        self._loop.watch(self._listener).on_readable = self._on_connection

    def _on_connection(self) -> None:
        if not self._may_start or (self._is_failing and self._is_young):
            self._turn_away()
            return
        self._loop.unwatch(self._listener)
        self._start()

    @property
    def _is_failing(self) -> bool:
        return self._young_deaths >= _MOST_YOUNG_DEATHS

    @property
    def _is_young(self) -> bool:
        return self._loop.clock() - self._born < _YOUNG_SECONDS

    def _turn_away(self) -> None:
        """Close the connections that wait."""
        with suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()

    def _start(self) -> None:
        import subprocess  # noqa: PLC0415 - by far not every run has a broker

        from belljar.broker import starting  # noqa: PLC0415

        self._born = self._loop.clock()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)  # noqa: FBT003 - the standard library's interface
        descriptors = (self._listener.fileno(), theirs.fileno())
        words = starting.command(*descriptors, self._state)
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    words,
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,  # a user's terminal is not for its last words; its end is told
                    pass_fds=descriptors,
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                log_bug("the broker could not be started", error)
                self._ended()
                return
        self._said = ours
        self._unread.clear()
        watch = self._loop.watch(ours)
        watch.on_readable = lambda: self._listen_to(watch)
        self._listen_to(watch)

    def _listen_to(self, watch: Watch) -> None:
        """Take what the broker says, until it has ended."""
        while self._said is not None and watch.on_readable is not None:
            try:
                data = self._said.recv(_READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._reap()
                self._ended()
                return
            self._unread += data
            self._take_lines()

    def _take_lines(self) -> None:
        *lines, rest = self._unread.split(b"\n")
        self._unread = bytearray() if len(rest) > _LONGEST_LINE else rest
        for line in lines:
            with suppress(ValueError):
                self._on_event(json.loads(line))

    def _reap(self) -> None:
        if self._said is not None:
            self._loop.unwatch(self._said)
            self._said.close()
            self._said = None
        if self._process is not None:
            self._process.kill()  # it has nothing more to say, and should have ended
            code, self._process = self._process.wait(), None
            if not self._is_closed:
                how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
                _LOG.warning("belljar: the broker has ended (%s); it is started again when it is needed", how)

    def _ended(self) -> None:
        """Wait for the next connection; those that wait already would be the next to start it."""
        self._young_deaths = self._young_deaths + 1 if self._is_young else 0
        if self._is_closed:
            return
        if self._is_failing:
            self._turn_away()
        self._wait()


def used_by(event: Mapping[str, Any]) -> ServiceUsed | None:
    """Return what an event of the broker's tells of a request; None if it is about something else."""
    if event.get("event") != "request":
        return None
    return ServiceUsed(*(event.get(name, _UNTOLD.get(name)) for name in ServiceUsed._fields))


def _listen(directory: Path) -> tuple[socket.socket, int]:
    """Return a socket that listens, and what it is connected to by: a descriptor, and no path that is left.

    While there is one, nobody else may find it: whoever can connect speaks for sandboxes.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    held = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(_SOCKET, dir_fd=held)
        listener.bind(f"/proc/self/fd/{held}/{_SOCKET}")  # which may be longer than the kernel takes
        listener.listen(_WAITING)
        descriptor = os.open(_SOCKET, os.O_PATH | os.O_CLOEXEC, dir_fd=held)
        os.unlink(_SOCKET, dir_fd=held)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(held)
    return listener, descriptor
