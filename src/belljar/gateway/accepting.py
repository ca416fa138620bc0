"""Taking connections from a listener, within limits: one greedy sandbox cannot starve another."""

import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final

from belljar.gateway.jar import Jar
from belljar.gateway.loop import Loop
from belljar.gateway.streams import Stream

_BATCH: Final = 32  # connections taken before others get a turn
_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS: Final = 0.05

Handler = Callable[[Stream], Coroutine[Any, Any, None]]


async def accept_for_ever(loop: Loop, jar: Jar, listener: socket.socket, handle: Handler) -> None:
    """Start a handler for each connection; refuse at once what is beyond the sandbox's limits."""
    watch = loop.watch(listener)
    while True:
        try:
            for _ in range(_BATCH):
                accepted, _peer = listener.accept()
                accepted.setblocking(False)  # noqa: FBT003 - the standard library's interface
                _start(loop, jar, accepted, handle)
            await loop.sleep(0)
        except BlockingIOError:
            await loop.readable(watch)
        except OSError as error:
            if error.errno in _OUT_OF_RESOURCES:
                jar.observer.limit_reached("descriptors")
                await loop.sleep(_PAUSE_SECONDS)
            elif error.errno != errno.ECONNABORTED:
                raise


def _start(loop: Loop, jar: Jar, accepted: socket.socket, handle: Handler) -> None:
    client = Stream(loop, accepted)
    if len(jar.flows) + jar.handshakes >= jar.limits.connections:
        jar.observer.limit_reached("connections")
        client.reset()
    elif jar.handshakes >= jar.limits.handshakes:
        jar.observer.limit_reached("handshakes")
        client.reset()
    else:
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.spawn(handle(client))
