"""Who is at the other end of a connection: on the unix socket, a process of the same user or nobody."""

import asyncio
import os
import socket
import struct
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

TRUSTED: Final = "belljar.trusted"
"""A key of a request's state: whether its sender is known by other means than a token."""

_CREDENTIALS: Final = struct.Struct("3i")


class CheckedProtocol(H11Protocol):
    """HTTP/1.1 with a look at the other end before anything else."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # the name differs upstream
        """Go on with whom we may talk to."""
        end: Any = transport.get_extra_info("socket")
        is_local = end.family == socket.AF_UNIX
        self.app_state = {**self.app_state, TRUSTED: is_local}
        super().connection_made(transport)
        if is_local and _user_of(end) != os.geteuid():
            transport.abort()  # before anything was read


def _user_of(end: Any) -> int:
    credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)
