"""What the backend and its forker say to each other.

Requests go from the backend to processes that it has started, as pickled values in a memory file: they can be of any
size. Replies come from processes that may have entered a sandbox by then, and are nothing but JSON.
"""

import errno
import json
import os
import pickle
import socket
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from belljar.backends.interface import GoneError, LostError, MachineError, PathError, PausedError, SpecError
from belljar.errors import BelljarError
from belljar.linux.descriptors import receive_descriptors

MOST_BYTES: Final = 65536

_LEAST_DESCRIPTORS: Final = 2

_ERRORS: Final[dict[str, type[BelljarError]]] = {
    kind.__name__: kind for kind in (GoneError, LostError, MachineError, PathError, PausedError, SpecError)
}


class ForkerRequest(NamedTuple):
    """Something that a process forked for it is to do."""

    task: str
    arguments: tuple[Any, ...]
    channel: socket.socket
    """Where the answer goes to, and later the exit code of a command."""

    descriptors: list[int]


def send_request(
    control: socket.socket, task: str, arguments: tuple[Any, ...], descriptors: Sequence[int]
) -> socket.socket:
    """Send a request, and return the channel for its answer. Raises OSError."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    content = os.memfd_create("belljar")
    try:
        with os.fdopen(content, "wb", closefd=False) as file:
            pickle.dump((task, arguments), file)
        socket.send_fds(control, [b"!"], [theirs.fileno(), content, *descriptors])
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(content)
    return ours


def receive_request(control: socket.socket) -> ForkerRequest | None:
    """Receive a request; None if there will be no more. Raises OSError if it came without its descriptors."""
    message, descriptors = receive_descriptors(control, 1)
    if not message:
        return None
    if len(descriptors) < _LEAST_DESCRIPTORS:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    channel, content, *rest = descriptors
    with os.fdopen(content, "rb") as file:
        file.seek(0)
        task, arguments = pickle.load(file)  # noqa: S301 - from the process that started us, over a socket of our own
    return ForkerRequest(task, arguments, socket.socket(fileno=channel), rest)


def reply(channel: socket.socket, answer: Any = None, descriptors: Sequence[int] = ()) -> None:
    """Answer a request."""
    socket.send_fds(channel, [json.dumps({"answer": answer}).encode()], list(descriptors))


def reply_error(channel: socket.socket, error: Exception) -> None:
    """Answer that a request failed."""
    kind = type(error).__name__
    said = (
        {"error": kind, "text": str(error)} if kind in _ERRORS else {"error": "LostError", "text": f"{kind}: {error}"}
    )
    channel.send(json.dumps(said).encode())


def receive_answer(channel: socket.socket) -> tuple[Any, list[int]]:
    """Receive an answer and the descriptors that came with it. Raises the error that was answered, or LostError."""
    try:
        message, descriptors = receive_descriptors(channel, MOST_BYTES)
    except TimeoutError:
        raise LostError("a process of the local backend does not answer; look at the load of this machine") from None
    except ConnectionError:
        message, descriptors = b"", []
    if not message:
        raise LostError("a process of the local backend ended before it had answered")
    said = json.loads(message)
    if "error" in said:
        raise _ERRORS[said["error"]](said["text"])
    return said["answer"], descriptors
