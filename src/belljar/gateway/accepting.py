"""Taking connections from a listener, within limits: one greedy sandbox cannot starve another.

Whatever becomes of one connection, the listener goes on: a handler that fails is a bug, which is noted, and its client
is reset.
"""

import errno
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from belljar.gateway.io.loop import Cancelled, Loop, Task
from belljar.gateway.io.streams import Stream, tune
from belljar.gateway.limits import LimitError, Unfinished
from belljar.gateway.sandbox import SandboxState

_OUT_OF_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ENOSPC)
_PAUSE_SECONDS: Final = 0.05

Handler = Callable[[Stream], Coroutine[Any, Any, None]]


async def accept_for_ever(loop: Loop, sandbox: SandboxState, listener: socket.socket, handle: Handler) -> None:
    """Start a handler for each connection; refuse at once what is beyond the sandbox's limits."""
    watch, family = loop.watch(listener), int(listener.family)
    tune(listener)  # what it accepts will be like it
    while True:
        try:
            _start(loop, sandbox, _accept(loop, listener, family), handle)
            if loop.clock() >= loop.slice_ends:
                await loop.give_way()
        except BlockingIOError:
            await loop.readable(watch)
        except ConnectionAbortedError:  # the client has left before its turn came
            continue
        except OSError as error:
            if error.errno in _OUT_OF_RESOURCES:
                sandbox.observer.limit_reached("descriptors")
            await loop.sleep(_PAUSE_SECONDS)


def _accept(loop: Loop, listener: socket.socket, family: int) -> Stream:
    # Not `accept`, which asks for the listener's family and type anew, and makes members of enumerations of both.
    descriptor, _peer = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    accepted = socket.socket(family, socket.SOCK_STREAM, 0, descriptor)
    try:
        accepted.setblocking(False)  # noqa: FBT003 - the standard library's interface
        return Stream(loop, accepted)
    except OSError:
        accepted.close()
        raise


def _start(loop: Loop, sandbox: SandboxState, client: Stream, handle: Handler) -> None:
    if not sandbox.admit_connection():
        client.reset()
        return
    client.on_close = sandbox.connection_ended
    client.kept = Unfinished(sandbox)
    task = loop.spawn(handle(client))
    sandbox.handlers[task] = client
    task.when_done(partial(_finish, sandbox, client, task))


def _finish(sandbox: SandboxState, client: Stream, task: Task) -> None:
    del sandbox.handlers[task]
    if task.error is not None:
        client.reset()
        if not isinstance(task.error, Cancelled | LimitError):
            sandbox.observer.bug_found(task.error)
