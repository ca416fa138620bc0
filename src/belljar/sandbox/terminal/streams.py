"""The standard streams that a command is given, of those that its caller has.

Theory of operation
-------------------
A descriptor that is handed to a command is the caller's own, with all that it can do. Of a file or a pipe, that is to
read and to write. But a socket stays in the network that it was made in, the host's: whoever holds it can disconnect
it and connect it elsewhere, past the gateway, bind it to a name, or ask it for the host's interfaces. And sockets are
common streams: of services that are started for a connection (inetd, systemd), of those that log to systemd's journal,
of programs that asyncio or Node starts. So in place of a socket the command gets a pipe, and a thread outside carries
the bytes. Where one socket is several streams, input has a pipe and all output another, so that it stays in order.

The end of what is read is carried, and so is the end of whoever reads: the command is told of a broken pipe. Nothing
else is carried: what is neither a file, a pipe, a terminal, a connected socket, nor one of the devices that every
sandbox has, is refused.
"""

import os
import select
import socket
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError

_CHUNK: Final = 65536
_INPUT: Final = 0
_ERROR: Final = 2
_NAMES: Final = ("standard input", "standard output", "standard error")
_DEVICES: Final = frozenset(os.makedev(1, minor) for minor in (3, 5, 7, 8, 9))
"""null, zero, full, random and urandom."""


class StreamError(BelljarError):
    """A standard stream is something that no command is to be given."""


class CarriedStreams:
    """A command's standard streams. While it runs, those that are sockets are carried: `with streams:`."""

    def __init__(self, callers: Sequence[int]) -> None:
        """Take the caller's three descriptors, or what replaces them. Raises StreamError."""
        self._carriers: list[threading.Thread] = []
        self._outputs: list[threading.Thread] = []
        self._handed_over: list[int] = []
        self._pipes: dict[tuple[bool, int], int] = {}
        self.inside = tuple(self._inside(number, stream) for number, stream in enumerate(callers))
        """The descriptors that the command gets."""

    def __enter__(self) -> None:
        """Begin to carry, once the command's process has its ends. There are threads from now on."""
        for end in self._handed_over:
            os.close(end)
        for carrier in self._carriers:
            carrier.start()

    def __exit__(self, *_: object) -> None:
        """See to it that the last of the output arrives, and what we say next. Nothing is alive inside by now."""
        for carrier in self._outputs:
            carrier.join()
        os.set_blocking(_ERROR, True)  # whoever shared it may have left it so that what we say gets lost

    def _inside(self, number: int, stream: int) -> int:
        found = os.fstat(stream)
        if stat.S_ISSOCK(found.st_mode):
            _check_socket(number, stream)
            return self._carried(stream, found.st_ino, is_input=number == _INPUT)
        if not _can_be_handed_over(stream, found):
            raise StreamError(
                f"{_NAMES[number]} is neither a file, a pipe, a terminal nor a connected socket "
                f"({_described(stream)}), and could be a way out of the sandbox;\n"
                "put a pipe in between: cat SOURCE | belljar run -- COMMAND | cat > TARGET"
            )
        return stream

    def _carried(self, stream: int, inode: int, *, is_input: bool) -> int:
        if (is_input, inode) not in self._pipes:
            reading, writing = os.pipe()
            ends = (stream, writing) if is_input else (reading, stream)
            carrier = threading.Thread(target=_carry, args=(*ends, writing if is_input else reading), daemon=True)
            self._carriers.append(carrier)
            if not is_input:
                self._outputs.append(carrier)
            self._pipes[is_input, inode] = reading if is_input else writing
            self._handed_over.append(self._pipes[is_input, inode])
        return self._pipes[is_input, inode]


def _can_be_handed_over(stream: int, found: os.stat_result) -> bool:
    if stat.S_ISREG(found.st_mode):
        return _described(stream).startswith("/")  # namespaces and processes can look like files, but have no path
    if stat.S_ISCHR(found.st_mode):
        return found.st_rdev in _DEVICES or os.isatty(stream)
    return stat.S_ISFIFO(found.st_mode)


def _check_socket(number: int, stream: int) -> None:
    with socket.socket(fileno=os.dup(stream)) as found, suppress(OSError):
        if found.type == socket.SOCK_STREAM:
            found.getpeername()
            return
    raise StreamError(
        f"{_NAMES[number]} is a socket that is not one end of a connection: there are no bytes to carry;\n"
        "have each connection start a command of its own (systemd: Accept=yes, inetd: nowait)"
    )


def _described(stream: int) -> str:
    return str(Path(f"/proc/self/fd/{stream}").readlink())


def _carry(source: int, target: int, ours: int) -> None:
    """Carry bytes until there are no more, or nobody takes them; then close our end of the pipe."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(target, 0)  # tells if whoever reads from it is gone
    with suppress(OSError):
        while target not in dict(poll.poll()):
            with suppress(BlockingIOError):  # the caller's sockets are as the caller has them
                data = os.read(source, _CHUNK)
                if not data:
                    break
                _write_all(target, data)
    os.close(ours)


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    room = select.poll()
    room.register(target, select.POLLOUT)
    while view:
        room.poll()
        with suppress(BlockingIOError):
            view = view[os.write(target, view) :]
