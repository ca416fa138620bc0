"""The origin: what all connections of the benchmark lead to. Runs as a program, `python -m bench.origin ADDRESS PORT`.

Every client sends a ClientHello first, and whoever passes it on has had the chance to inspect it. The origin speaks no
TLS: cryptography would cost more than what is measured. What it does depends on the name in the ClientHello: it answers
and closes, or answers and waits for the client to leave, or sends bytes for as long as the client takes them.
"""

import select
import socket
import sys

ANSWER, IDLE, STREAM = "answer.test", "idle.test", "stream.test"

REPLY = b"\x16" * 64
_PIECE = memoryview(bytes(1 << 18))
_BATCH = 64


class Origin:
    """One loop with all connections."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._epoll = select.epoll()
        self._epoll.register(listener, select.EPOLLIN)
        self._open: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Serve until the process is ended."""
        while True:
            for descriptor, events in self._epoll.poll():
                if descriptor == self._listener.fileno():
                    self._accept()
                else:
                    self._attend(self._open[descriptor], events)

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                client, _peer = self._listener.accept()
            except BlockingIOError:
                return
            try:
                self._greet(client)
            except OSError:
                client.close()

    def _greet(self, client: socket.socket) -> None:
        hello = client.recv(65536)  # TCP_DEFER_ACCEPT: it is there
        if STREAM.encode() in hello:
            client.settimeout(0)
            self._keep(client, select.EPOLLOUT)
            return
        client.send(REPLY)
        if IDLE.encode() in hello:
            self._keep(client, select.EPOLLIN)
        else:
            client.close()

    def _keep(self, client: socket.socket, events: int) -> None:
        self._open[client.fileno()] = client
        self._epoll.register(client, events)

    def _attend(self, client: socket.socket, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                client.send(_PIECE)
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        del self._open[client.fileno()]
        client.close()


def main(address: str, port: int) -> None:
    """Listen, say so, and serve."""
    listener = socket.create_server((address, port), backlog=4096)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 5)
    listener.settimeout(0)
    print("ready", flush=True)
    Origin(listener).serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
