"""Sockets handed from one process to another over a unix socket (SCM_RIGHTS), in labelled groups.

A socket stays in the network namespace it was made in. So a helper that has entered a sandbox's namespace can make
sockets there and hand them to a process that has not.
"""

import json
import os
import select
import socket
from array import array
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

_MAX_DESCRIPTORS: Final = 253  # what the kernel takes in one message
_MAX_MESSAGE: Final = 4096
_LAST_STANDARD: Final = 2


def send_sockets(channel: socket.socket, groups: Mapping[str, Iterable[socket.socket]]) -> None:
    """Send groups of sockets in one message. The sender keeps its own descriptors, and closes them itself."""
    descriptors = {label: [sock.fileno() for sock in sockets] for label, sockets in groups.items()}
    message = json.dumps({label: len(group) for label, group in descriptors.items()}).encode()
    socket.send_fds(channel, [message], [descriptor for group in descriptors.values() for descriptor in group])


def receive_sockets(channel: socket.socket) -> dict[str, tuple[socket.socket, ...]]:
    """Receive what `send_sockets` sent, each socket blocking or not as the sender had it.

    Raises EOFError if the other side closed the channel instead.
    """
    message, descriptors = receive_descriptors(channel, _MAX_MESSAGE)
    if not message:
        raise EOFError("the other side closed the channel and sent no sockets")
    sockets = map(adopt, descriptors)
    return {label: tuple(next(sockets) for _ in range(count)) for label, count in json.loads(message).items()}


def receive_descriptors(channel: socket.socket, most_bytes: int) -> tuple[bytes, list[int]]:
    """Receive bytes, and the descriptors that came with them."""
    # Not socket.recv_fds: it forgets its flags, and the descriptors would be inherited by child processes.
    room = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array("i").itemsize)
    message, ancillary, _, _ = channel.recvmsg(most_bytes, room, socket.MSG_CMSG_CLOEXEC)
    return message, [descriptor for _, _, data in ancillary for descriptor in array("i", data)]


def is_readable(descriptor: int, timeout: float | None = 0) -> bool:
    """Tell whether there is something to read, or an end to be noticed, in time; None means to wait for it."""
    poll = select.poll()  # not select: it takes no descriptor beyond 1023
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


def adopt(descriptor: int) -> socket.socket:
    """Make a socket of a received descriptor, blocking or not as the sender had it."""
    adopted = socket.socket(fileno=descriptor)
    adopted.setblocking(os.get_blocking(descriptor))
    return adopted


def close_all_but(kept: int) -> None:
    """Close every descriptor but one and the standard streams."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - numbers, without making paths
        if descriptor > _LAST_STANDARD and descriptor != kept:
            with suppress(OSError):  # that of the listing itself is closed already
                os.close(descriptor)
