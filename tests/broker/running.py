"""A broker as its owner runs it, and a sandbox's client of it."""

import http.client
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from belljar.broker import preamble
from belljar.broker.starting import command
from belljar.policy.services import PROVIDERS, Budget, Service, ServiceKind, SharedBudget

KEY = "sk-the-real-key-0123456789"
UNBOUNDED = Budget()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def service(
    url: str,
    name: str = "anthropic",
    *,
    header: tuple[tuple[str, str], ...] | None = None,
    paths: tuple[str, ...] | None = None,
    budget: Budget = UNBOUNDED,
    shared: SharedBudget | None = None,
    server_tools: bool = False,
) -> Service:
    """Return a provider's service that leads to a stand-in."""
    provider = PROVIDERS.get(name)
    base = "" if provider is None or name == "openai" else "/".join(["", *provider.url.split("/")[3:]]).rstrip("/")
    return Service(
        name,
        ServiceKind.BROKER,
        url + base,
        header=header if header is not None else (("x-api-key", "${ANTHROPIC_API_KEY}"),),
        paths=paths if paths is not None else (provider.paths if provider else ("POST /*",)),
        budget=budget,
        shared=shared,
        server_tools=server_tools,
    )


class Running:
    """A broker's process."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self.directory = directory
        self.path = directory / "broker.sock"
        self.state = directory / "state"
        self.state.mkdir(exist_ok=True)
        self.output = b""
        self.lines = b""
        self.path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen(2048)
        self.events, theirs = socket.socketpair()
        with listener, theirs:
            self.process = subprocess.Popen(
                command(listener.fileno(), theirs.fileno(), self.state),
                pass_fds=(listener.fileno(), theirs.fileno()),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "ANTHROPIC_API_KEY": KEY, "BELLJAR_DEBUG": "1", **environ},
            )

    def stop(self, *, kill: bool = False) -> None:
        """End it as a dying owner would, or by force."""
        if kill:
            self.process.send_signal(signal.SIGKILL)
        self.events.close()
        self.output += self.process.communicate(timeout=60)[0]

    def connect(self, used: Service, sandbox: str | None = None, *, refuse_tools: bool = False) -> socket.socket:
        """Return a connection, as the gateway would make it."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(self.path))
        connection.sendall(preamble.write(sandbox or uuid4().hex, used, refuse_tools=refuse_tools))
        return connection

    def client(
        self, used: Service, sandbox: str | None = None, *, refuse_tools: bool = False
    ) -> http.client.HTTPConnection:
        """Return a client of a service."""
        client = http.client.HTTPConnection(used.host)
        client.sock = self.connect(used, sandbox, refuse_tools=refuse_tools)
        return client

    def ask(
        self,
        used: Service,
        method: str = "POST",
        path: str = "/v1/messages",
        body: Any = None,
        headers: Mapping[str, str] = {},
        *,
        sandbox: str | None = None,
        refuse_tools: bool = False,
    ) -> Answer:
        """Ask once."""
        client = self.client(used, sandbox, refuse_tools=refuse_tools)
        try:
            content = json.dumps(body) if isinstance(body, dict | list) else body
            client.request(method, path, content, dict(headers))
            return answer_of(client)
        finally:
            client.close()

    def raw(self, used: Service, data: bytes, sandbox: str | None = None, *, refuse_tools: bool = False) -> bytes:
        """Send bytes, and return all that comes back until the end."""
        with self.connect(used, sandbox, refuse_tools=refuse_tools) as connection:
            connection.sendall(data)
            return drain(connection)

    def event(self, seconds: float = 60, **wanted: Any) -> dict[str, Any]:
        """Return the next event that has certain fields."""
        deadline = time.monotonic() + seconds
        while True:
            line, newline, rest = self.lines.partition(b"\n")
            if newline:
                self.lines = rest
                self.output += line
                event: dict[str, Any] = json.loads(line)
                if all(event.get(name) == value for name, value in wanted.items()):
                    return event
            elif select.select([self.events], [], [], max(deadline - time.monotonic(), 0))[0]:
                self.lines += self.events.recv(65536)
            else:
                raise AssertionError(f"no event with {wanted}")


def answer_of(client: http.client.HTTPConnection) -> Answer:
    response = client.getresponse()
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def drain(connection: socket.socket) -> bytes:
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received
