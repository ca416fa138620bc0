"""What an engine may do on this machine: as much as the user who runs it."""

import socket
import struct
from functools import cache
from pathlib import Path
from typing import Final

from belljar.backends.containers.engine.client import Engine, EngineLostError

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as the kernel tells them."""


@cache
def is_rootless(engine: Engine) -> bool:
    """Tell whether an engine has no more rights on the host than an ordinary user. Raises EngineLostError."""
    return server_of(engine) not in (0, None)


def server_of(engine: Engine) -> int | None:
    """Return the user who runs an engine; None for one who is not known here. Raises EngineLostError.

    The kernel is asked: to look it up takes Podman longer than to start a container.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(engine.address))
            told = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError as error:
            raise EngineLostError(f"{engine.kind} does not answer at {engine.address}: {error}") from error
    return outside(_CREDENTIALS.unpack(told)[1], "uid")


def outside(number: int, kind: str) -> int | None:
    """Return the number that a user (uid) or a group (gid) has outside of the user namespace that we may be in.

    None for one whom that namespace does not know.
    """
    for line in Path(f"/proc/self/{kind}_map").read_text().splitlines():
        first, first_outside, count = map(int, line.split())
        if first <= number < first + count:
            return first_outside + number - first
    return None
