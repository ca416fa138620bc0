"""An agent in a sandbox: every door it can try, and what the witnesses say about it."""

import errno
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from http.client import HTTPResponse
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from belljar.gateway.audit.observing import Denial
from belljar.gateway.sandbox import SandboxState
from tests.gateway.serving import Serving
from tests.universe import Contact, Sandbox, Universe, addresses
from tests.universe.clients import PATIENCE, received

ASKED_RESOLVER = {Contact("udp", addresses.RESOLVER, 53), Contact("tcp", addresses.RESOLVER, 53)}

TUNNELS = ["direct", "direct6", "connect", "connect6", "socks", "socks6"]
"""The doors to any protocol, each over both families."""

WEB_DOORS = [*TUNNELS, "absolute", "absolute6"]
"""Those for HTTP in plain text: there is one more."""


class TurnedAwayError(Exception):
    """A proxy said no: the code of SOCKS, or the answer in HTTP."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer)
        self.answer = answer


class Page(NamedTuple):
    status: int
    kind: str | None
    body: bytes

    @property
    def problem(self) -> dict[str, Any]:
        """What a denial in HTTP says."""
        assert self.kind == "application/problem+json"
        found = json.loads(self.body)
        assert isinstance(found, dict)
        return found


class Agent:
    """Tries things from inside of a sandbox."""

    def __init__(self, serving: Serving, sandbox: Sandbox, jar: SandboxState, log: Path) -> None:
        self.serving, self.sandbox, self.jar = serving, sandbox, jar
        self.universe = serving.universe
        self._log = log
        self._began = time.time()

    # Doors.

    def dial(self, host: str, port: int, door: str = "direct") -> socket.socket:
        """Connect to a name or an address through a door. Raises OSError or TurnedAwayError."""
        kind, six = door.removesuffix("6"), door.endswith("6")
        if kind == "direct":
            return self.sandbox.connect(host if is_address(host) else self.address_of(host, six=six), port)
        proxy = self.sandbox.connect("::1" if six else "127.0.0.1", 1080 if kind == "socks" else 3128)
        return ask_socks(proxy, host, port) if kind == "socks" else ask_for_tunnel(proxy, host, port)

    def address_of(self, name: str, *, six: bool = False) -> str:
        """Look up a name. Raises socket.gaierror."""
        found = self.sandbox.look_up(name)
        return next(address for address in found if (":" in address) == six)

    def say(self, host: str, port: int, data: bytes, door: str = "direct") -> bytes:
        """Connect, say something, and return everything that comes back. Raises OSError or TurnedAwayError."""
        with self.dial(host, port, door) as client:
            client.sendall(data)
            return received(client)

    def is_reset(self, host: str, port: int, data: bytes = b"\0hello", door: str = "direct") -> bool:
        """Tell whether a connection is reset when something is said on it, or at the end of nothing."""
        try:
            with self.dial(host, port, door) as client:
                if data:
                    client.sendall(data)
                else:
                    client.shutdown(socket.SHUT_WR)
                client.recv(1)
        except ConnectionError:
            return True
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # it was reset before it could be ended
                raise
            return True
        return False

    def get(self, host: str, target: str = "/", *, port: int = 80, door: str = "direct", called: str = "") -> Page:
        """Ask for a page. `called` is what the request calls the host. Raises OSError or TurnedAwayError."""
        if door.startswith("absolute"):
            with self.sandbox.connect("::1" if door.endswith("6") else "127.0.0.1", 3128) as proxy:
                where = authority(called or host, port, default=80)
                return request(proxy, f"http://{where}{target}", where)
        with self.dial(host, port, door) as client:
            return request(client, target, authority(called or host, port, default=80))

    def handshake(self, host: str, name: str | None, *, port: int = 443, door: str = "direct") -> ssl.SSLSocket:
        """Make a TLS connection and ask for a server name, or for none. Raises OSError or TurnedAwayError."""
        context = self.universe.certificates.client_context()
        context.check_hostname = name is not None
        client = self.dial(host, port, door)
        try:
            return context.wrap_socket(client, server_hostname=name)
        except OSError:
            client.close()
            raise

    # Witnesses.

    def works(self, door: str = "direct") -> bool:
        """Tell whether what is allowed can be reached: the control beside every denied attempt."""
        page = self.get("plain.test", "/control", door=door)
        seen = [seen for seen in self.universe.internet.seen if seen.what == "GET plain.test /control"]
        return page.status == 200 and page.body == b"plain.test /control\n" and bool(seen)

    def reached_nobody(self, *, but_resolver: bool = False) -> bool:
        """Tell whether nothing has left the gateway, or only its own questions to its resolver."""
        contacts, seen = self.universe.wire.contacts(), self.universe.internet.seen
        if but_resolver:
            contacts -= ASKED_RESOLVER
            seen = [one for one in seen if one.address != addresses.RESOLVER]
        return not contacts and not seen and not self.universe.gateway.seen

    def requests(self) -> list[str]:
        """Return the requests that servers have seen."""
        return [seen.what for seen in self.universe.internet.witness.of_kind("request")]

    def questions(self) -> list[str]:
        """Return the names that the resolver was asked for."""
        return [seen.what.split()[0] for seen in self.universe.internet.witness.of_kind("question")]

    def handshakes(self) -> list[str]:
        """Return the server names that reached a server."""
        return [seen.what for seen in self.universe.internet.witness.of_kind("handshake")]

    def denials(self) -> list[Denial]:
        """Return the latest denials, the newest first."""
        return self.serving.do(self.jar.observer.denials)

    def reason(self) -> str:
        """Return the reason of this agent's last denial, having checked that the audit log has the same."""
        last = self.denials()[0]
        assert last.time >= self._began, "it was another's in the same sandbox"
        logged = next(line for line in self._newest_first() if line["event"] in ("flow.denied", "dns.denied"))
        assert (logged["reason"], logged["rule"], logged["sentence"]) == (last.reason, last.rule, last.sentence)
        return last.reason

    def settle(self) -> None:
        """Wait until everything has ended that the agent has begun."""
        given_up = time.monotonic() + PATIENCE
        while self.serving.do(lambda: self.jar.connections):
            assert time.monotonic() < given_up, "it does not end"

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit lines about this sandbox."""
        return [*self._newest_first()][::-1]

    def _newest_first(self) -> Iterator[dict[str, Any]]:
        whole = self._log.read_text("ascii").rpartition("\n")[0]  # the last line may be on its way
        for text in reversed(whole.splitlines()):
            line = json.loads(text)
            if line["sandbox"] == self.jar.id:
                yield line


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def authority(host: str, port: int, default: int | None = None) -> str:
    shown = f"[{host}]" if ":" in host and is_address(host) else host
    return shown if port == default else f"{shown}:{port}"


def request(client: socket.socket, target: str, host: str, method: str = "GET", **headers: str) -> Page:
    """Send a request, and return the answer to it."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", *(f"{name}: {text}" for name, text in headers.items())]
    client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    return answer(client, method)


def answer(client: socket.socket, method: str = "GET") -> Page:
    """Read one answer in HTTP, and nothing behind it."""
    head = read_head(client)
    if not head:
        raise ConnectionResetError("no answer")
    response = HTTPResponse(_Rest(head, client), method=method)  # type: ignore[arg-type]
    response.begin()
    return Page(response.status, response.headers.get("content-type"), response.read())


class _Rest:
    """A socket some of whose bytes have been read already, for `HTTPResponse`. It reads no more than it is asked."""

    def __init__(self, head: bytes, client: socket.socket) -> None:
        self._head, self._client = head, client
        self.closed = False

    def makefile(self, *_: object) -> "_Rest":
        return self

    def readline(self, limit: int = -1) -> bytes:
        line = b""
        while not line.endswith(b"\n") and (byte := self.read(1)):
            line += byte
        return line

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            return self._head + received(self._client)
        taken, self._head = self._head[:size], self._head[size:]
        while len(taken) < size and (more := self._client.recv(size - len(taken))):
            taken += more
        return taken

    def readinto(self, buffer: bytearray) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def ask_for_tunnel(proxy: socket.socket, host: str, port: int) -> socket.socket:
    """Ask an HTTP proxy for a tunnel. Raises TurnedAwayError."""
    where = authority(host, port)
    proxy.sendall(f"CONNECT {where} HTTP/1.1\r\nHost: {where}\r\n\r\n".encode("latin-1"))
    head = read_head(proxy)
    if head.startswith(b"HTTP/1.1 200 "):
        return proxy
    with proxy:
        response = HTTPResponse(_Rest(head, proxy))  # type: ignore[arg-type]
        response.begin()
        page = Page(response.status, response.headers.get("content-type"), response.read())
        assert proxy.recv(1) == b""  # a proxy that has said no says nothing more
    raise TurnedAwayError(page)


def ask_socks(proxy: socket.socket, host: str | bytes, port: int) -> socket.socket:
    """Ask a SOCKS5 proxy for a connection. Raises TurnedAwayError."""
    proxy.sendall(b"\5\1\0")
    assert proxy.recv(2) == b"\5\0"
    if isinstance(host, str) and is_address(host):
        packed = ip_address(host).packed
        where = bytes([1 if len(packed) == 4 else 4]) + packed
    else:
        name = host if isinstance(host, bytes) else host.encode()
        where = b"\3" + bytes([len(name)]) + name
    proxy.sendall(b"\5\1\0" + where + struct.pack("!H", port))
    reply = proxy.recv(10, socket.MSG_WAITALL)
    if reply[:2] == b"\5\0":
        return proxy
    with proxy:
        assert proxy.recv(1) == b""
    raise TurnedAwayError(reply[1])


@contextmanager
def scripted_server(
    universe: Universe, script: Callable[[socket.socket], Any], port: int = 8080
) -> Iterator[Future[Any]]:
    """Run a server in the internet that does as it is told with one connection, and returns what it was told to."""
    with universe.internet.call(socket.create_server, ("0.0.0.0", port)) as listener:
        listener.settimeout(PATIENCE)

        def serve() -> Any:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                return script(connection)

        serving = universe.internet.start(serve)
        yield serving
        wait([serving])


def read_head(connection: socket.socket) -> bytes:
    """Read up to an empty line, and nothing behind it."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        if not byte:
            break
        head += byte
    return head
