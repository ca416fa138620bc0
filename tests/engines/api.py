"""The engines' HTTP API, as far as the tests' own preparations need it: a client that is not the one under test."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

PATIENCE = 60


class ApiError(Exception):
    """The engine refused, or does not answer as it should."""


class Api:
    """The API at a socket. Each call has a connection of its own, so the engine may be restarted between two."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def call(self, method: str, path: str, document: object = None) -> Any:
        """Send a document and return the one that comes back; None if there is none."""
        body = b"" if document is None else json.dumps(document).encode()
        answer = self.send(method, path, body, "application/json")
        return json.loads(answer) if answer else None

    def send(self, method: str, path: str, body: bytes = b"", content: str = "application/x-tar") -> bytes:
        """Send bytes and return those that come back. Raises ApiError, and OSError if nobody serves."""
        connection = _UnixConnection(self._path)
        try:
            connection.request(method, path, body, {"Content-Type": content})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(f"{method} {path}: {response.status} {answer.decode()}")
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("engine", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))
