"""What an agent in a sandbox in memory would try, tried from outside at its doors."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import dns.query

from belljar.testing.memory import MemoryWorld
from tests.control.servers import PATIENCE


class Agent:
    """What runs in a sandbox, as far as its network sees it."""

    def __init__(self, world: MemoryWorld, sandbox: str) -> None:
        self._doors = world.sandboxes[sandbox].doors

    def ask(self, name: str) -> None:
        """Look a name up."""
        address, port = self._doors["dns_udp"]
        dns.query.udp(dns.message.make_query(name, "A"), address, port=port, timeout=PATIENCE)

    @contextmanager
    def connected(self, host: str, port: int) -> Iterator[tuple[socket.socket, bytes]]:
        """Have the proxy connect; yield the connection, and the first line of the answer."""
        with socket.create_connection(self._doors["http_proxy"], PATIENCE) as connection:
            connection.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
            yield connection, connection.recv(4096).split(b"\r\n")[0]

    def connect(self, host: str, port: int) -> bytes:
        with self.connected(host, port) as (_, status):
            return status
