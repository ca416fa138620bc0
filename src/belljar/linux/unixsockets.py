"""Connecting to a unix socket by its path, where somebody may want it to lead elsewhere."""

import os
import socket
import stat
from contextlib import ExitStack
from pathlib import Path


def connect_without_links(path: Path) -> socket.socket:
    """Return a non-blocking connection to a socket that is at this very path. Raises OSError.

    The way is held step by step, so that nobody can put a link in it meanwhile; and its length does not matter.
    """
    with ExitStack() as held:
        here, kind = _hold(held, "/", None), 0
        for part in path.parts[1:]:
            here = _hold(held, part, here)
            kind = os.fstat(here).st_mode
            if stat.S_ISLNK(kind):
                raise OSError(f"{path} has a symbolic link in it; name the path that it leads to")
        if not stat.S_ISSOCK(kind):
            raise OSError(f"{path} is not a unix socket")
        return connect_held(here)


def connect_held(descriptor: int) -> socket.socket:
    """Return a non-blocking connection to the socket whose file a descriptor holds. Raises OSError."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        connected.connect(f"/proc/self/fd/{descriptor}")
    except BaseException:
        connected.close()
        raise
    return connected


def _hold(held: ExitStack, name: str, directory: int | None) -> int:
    descriptor = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    held.callback(os.close, descriptor)
    return descriptor
