"""Sandboxes in memory whose doors can be used from outside: what an agent inside would try, a test tries."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import dns.query

from belljar.gateway.listeners import Listeners
from belljar.sandbox.spec import SandboxSpec
from belljar.testing.memory import MemoryBackend, MemoryWorld
from tests.control.servers import PATIENCE, Server


class OpenWorld(MemoryWorld):
    """A world that remembers where the doors of its sandboxes are."""

    def __init__(self) -> None:
        super().__init__()
        self.doors: dict[str, dict[str, tuple[str, int]]] = {}


class _OpenBackend(MemoryBackend):
    def create(self, sandbox: str, wanted: SandboxSpec) -> Listeners:
        listeners = super().create(sandbox, wanted)
        assert isinstance(self._world, OpenWorld)
        self._world.doors[sandbox] = {
            name: group[0].getsockname() for name, group in listeners.groups().items() if group
        }
        return listeners


class OpenServer(Server):
    """A server over such a world."""

    backend = _OpenBackend


class Agent:
    """What runs in a sandbox, as far as its network sees it."""

    def __init__(self, world: MemoryWorld, sandbox: str) -> None:
        assert isinstance(world, OpenWorld)
        self._doors = world.doors[sandbox]

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
