"""Real TCP connections on the loopback interface, and what their two ends see."""

import contextlib
import socket
import struct
from collections.abc import Iterator

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection, neither of which blocks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    for end in (one, other):
        end.setblocking(False)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


@contextlib.contextmanager
def connected(loop: Loop) -> Iterator[tuple[Stream, socket.socket]]:
    """A stream, and the far end of its connection."""
    near, far = tcp_pair()
    stream = Stream(loop, near)
    try:
        yield stream, far
    finally:
        stream.close()
        far.close()


def reset(sock: socket.socket) -> None:
    """Hang up at once: the other end sees a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def receive(sock: socket.socket) -> bytes | None:
    """Return what has arrived, nothing at the end, None if there is nothing yet. Raises OSError."""
    try:
        return sock.recv(1 << 20)
    except BlockingIOError:
        return None


def send(sock: socket.socket, data: bytes | memoryview) -> int:
    """Send as much as goes now; return how much that was."""
    try:
        return sock.send(data)
    except BlockingIOError:
        return 0


def fill(sock: socket.socket) -> int:
    """Send until nothing more goes; return how much that was."""
    return sum(iter(lambda: send(sock, bytes(1 << 16)), 0))
