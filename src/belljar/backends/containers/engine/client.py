"""A container engine, asked over its unix socket.

Docker and Podman speak the same HTTP API there; Podman says 1.41 and means what Docker 20.10 does. A request is a
connection of its own: requests are few, come from many threads, and some wait for as long as a command runs.
"""

import http.client
import json
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from belljar.errors import BelljarError, printable

API: Final = "/v1.40"
"""The version that all engines understand alike: what Podman 4.0 speaks."""

_SECONDS_TO_ANSWER: Final = 120.0
_MOST_WORDS: Final = 1000
"""Characters of an error: some engines repeat what they were asked for."""

_PLAIN: Final[Mapping[str, str]] = {}


class EngineError(BelljarError):
    """The engine said no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EngineLostError(BelljarError):
    """There was no answer: the engine is not there, or went away."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine, by the path of its socket."""

    kind: str
    """docker or podman: what it is called where there is a difference."""

    address: Path

    api: str = API
    """The version that is spoken, as a path begins with it: Docker 29 has forgotten what 1.40 was."""

    patience: float = _SECONDS_TO_ANSWER
    """Seconds until there has to be an answer."""

    def greet(self) -> http.client.HTTPMessage:
        """Return the headers with which it says that it is there: to say more takes Podman half a second.

        Raises EngineError, EngineLostError.
        """
        return self._converse("GET", "/_ping", {})[0]

    def get(self, path: str, /, **query: Any) -> Any:
        """Ask for something. Raises EngineError, EngineLostError."""
        return self._ask("GET", path, query)

    def post(self, path: str, body: Any = None, /, **query: Any) -> Any:
        """Have something done. Raises EngineError, EngineLostError."""
        return self._ask("POST", path, query, body)

    def delete(self, path: str, /, **query: Any) -> None:
        """Have something taken away. Raises EngineError, EngineLostError."""
        self._ask("DELETE", path, query)

    def download(self, path: str, most: int, /, **query: Any) -> bytes:
        """Ask for a file, and take so many bytes of it at most. Raises EngineError, EngineLostError."""
        return self._converse("GET", path, query, most=most)[1]

    def upload(self, path: str, content: bytes, /, *, method: str = "PUT", **query: Any) -> Any:
        """Give the engine an archive. Raises EngineError, EngineLostError."""
        return _last_word(self._exchange(method, path, query, content, {"Content-Type": "application/x-tar"}))

    def attach(self, path: str, body: Any) -> tuple[socket.socket, bytes]:
        """Have a connection become a command's streams; return it, and what has been read from it already.

        Raises EngineError, EngineLostError.
        """
        connection = self._connect(None)
        headers = {"Content-Type": "application/json", "Connection": "Upgrade", "Upgrade": "tcp"}
        try:
            connection.request("POST", self.api + path, json.dumps(body), headers)
            return _upgraded(connection.sock)
        except OSError as error:
            connection.close()
            raise EngineLostError(self._lost(error)) from error
        except BaseException:
            connection.close()
            raise

    def _ask(self, method: str, path: str, query: Mapping[str, Any], body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        answer = self._exchange(method, path, query, content, {"Content-Type": "application/json"})
        return json.loads(answer) if answer.strip() else None

    def _exchange(
        self, method: str, path: str, query: Mapping[str, Any], content: Any = None, headers: Mapping[str, str] = _PLAIN
    ) -> bytes:
        return self._converse(method, path, query, content, headers)[1]

    def _converse(  # noqa: PLR0913 - this is what a request consists of
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        content: Any = None,
        headers: Mapping[str, str] = _PLAIN,
        *,
        most: int | None = None,
    ) -> tuple[http.client.HTTPMessage, bytes]:
        connection = self._connect(self.patience)
        try:
            connection.request(method, f"{self.api}{quote(path)}{_written(query)}", content, dict(headers))
            response = connection.getresponse()
            answer = response.read(most)
        except (OSError, http.client.HTTPException) as error:
            raise EngineLostError(self._lost(error)) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise EngineError(response.status, _message(answer))
        return response.headers, answer

    def _connect(self, timeout: float | None) -> "_Connection":
        return _Connection(self.address, timeout)

    def _lost(self, error: Exception) -> str:
        return f"{self.kind} does not answer at {self.address}: {error}"


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(str(self._path))
        except BaseException:
            self.sock.close()
            raise


def _upgraded(sock: socket.socket) -> tuple[socket.socket, bytes]:
    """Read the head of an answer, and nothing of what follows: `http.client` would read ahead."""
    head, rest = _until(sock, b"", lambda read: b"\r\n\r\n" in read).split(b"\r\n\r\n", 1)
    status = int(head.split(None, 2)[1])
    if status in (101, 200):
        return sock, rest
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    reason = _until(sock, rest, lambda read: len(read) >= (int(length[1]) if length else 1))
    raise EngineError(status, _message(reason))


def _until(sock: socket.socket, read: bytes, is_enough: Callable[[bytes], bool]) -> bytes:
    while not is_enough(read):
        if not (piece := sock.recv(4096)):
            raise ConnectionResetError("it closed the connection")
        read += piece
    return read


def _written(query: Mapping[str, Any]) -> str:
    words = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in query.items()
        if value is not None
    }
    return f"?{urlencode(words)}" if words else ""


def _last_word(answer: bytes) -> Any:
    """Return the last of the JSON values in which an engine tells how far it is. Raises EngineError."""
    told = [json.loads(line) for line in answer.splitlines() if line.strip()]
    for value in told:
        if "error" in value:
            raise EngineError(500, printable(str(value["error"]).strip()))
    return told[-1] if told else None


def _message(answer: bytes) -> str:
    try:
        said = str(json.loads(answer)["message"])
    except (ValueError, KeyError, TypeError):
        said = answer.decode(errors="replace").strip() or "no reason given"
    said = printable(said.strip())  # engines repeat what images have in them
    return said if len(said) <= _MOST_WORDS else f"{said[: _MOST_WORDS // 2]} ... {said[-_MOST_WORDS // 2 :]}"
