"""Notices clients that have left, also while nothing is read from their connections.

asyncio learns of the end of a connection only by reading it, and a connection whose task has enough to do is not read.
What its client has sent would then still be parsed after a policy has cut it. The kernel reports the end by itself to
an epoll instance that asks for nothing else.
"""

import asyncio
import select
from collections.abc import Callable
from typing import Final

_GONE: Final = select.EPOLLHUP | select.EPOLLERR
_MAX_EVENTS: Final = 64
OnHangup = Callable[[bool], None]
"""Is called with whether the client can still be answered: it may have closed its own direction only."""


class Hangups:
    """Reports the end of connections, each at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._epoll = select.epoll()
        self._callbacks = dict[int, OnHangup]()
        loop.add_reader(self._epoll.fileno(), self._report)

    def watch(self, descriptor: int, callback: OnHangup) -> None:
        """Call something when the other side of a connection ends it."""
        self._callbacks[descriptor] = callback
        self._epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLET)  # HUP and ERR are always reported

    def forget(self, descriptor: int) -> None:
        """Watch a connection no longer, before it is closed."""
        if self._callbacks.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Watch nothing any more."""
        self._callbacks.clear()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _report(self) -> None:
        for descriptor, events in self._epoll.poll(0, _MAX_EVENTS):
            if (callback := self._callbacks.get(descriptor)) is not None:
                callback(not events & _GONE)
