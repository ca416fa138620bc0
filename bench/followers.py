"""Followers of a server's events, many of them on one thread: they read, and note how late what they read is."""

import re
import selectors
import socket
import time
from contextlib import ExitStack
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Self

_REQUEST = b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n"
_DENIAL_TIME = re.compile(rb'"time":"([^"]+)","event":"dns.denied"')
_LOOK_UP_SECONDS = 0.1


class Followers:
    """Raw connections to a server's unix socket, each of which follows everything that happens."""

    def __init__(self, path: Path, size: int) -> None:
        self.delays: list[float] = []
        """Seconds from each denial to its arrival at each follower."""

        self.first = self.last = 0.0
        self._unread: dict[socket.socket, bytes] = {}
        self._selector = selectors.DefaultSelector()
        self._stopped = False
        self._stack = ExitStack()
        for _ in range(size):
            sock = self._stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(str(path))
            sock.sendall(_REQUEST)
            while b"id: " not in self._unread.get(sock, b""):  # from now on it misses nothing
                self._unread[sock] = self._unread.get(sock, b"") + sock.recv(1 << 16)
            self._selector.register(sock, selectors.EVENT_READ)
        self._thread = Thread(target=self._read)

    def wait(self, denials: int, seconds: float) -> None:
        """Wait until so many have arrived, but no longer than that."""
        given_up = time.monotonic() + seconds
        while len(self.delays) < denials and time.monotonic() < given_up:
            time.sleep(_LOOK_UP_SECONDS)

    def _read(self) -> None:
        while not self._stopped:
            for key, _ in self._selector.select(_LOOK_UP_SECONDS):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                *events, self._unread[sock] = (self._unread[sock] + sock.recv(1 << 18)).split(b"\n\n")
                self._note(events, time.time())

    def _note(self, events: list[bytes], now: float) -> None:
        times = [_seconds(found[1]) for event in events if (found := _DENIAL_TIME.search(event))]
        if times:
            self.first, self.last = self.first or now, now
            self.delays += [now - time for time in times]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join()
        self._selector.close()
        self._stack.close()


@lru_cache(10_000)
def _seconds(stamp: bytes) -> float:
    return datetime.fromisoformat(stamp.decode()).timestamp()
