"""Sockets that are not an engine's, or that of one which nobody has any more."""

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def answering(path: Path, answers: bytes | Mapping[str, object]) -> Iterator[None]:
    """Answer every request with some bytes, or with the bytes or the JSON that belong to the end of its path."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        server = threading.Thread(target=_serve, args=(listener, answers))
        server.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()


@contextmanager
def silent(path: Path, answers: Mapping[str, object]) -> Iterator[list[str]]:
    """Answer as `answering` does, and leave every other request without an answer; yield the paths of those."""
    asked: list[str] = []
    kept: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            wanted = connection.makefile("rb").readline().split()[1].decode()
            if any(map(wanted.endswith, answers)):
                with connection:
                    connection.sendall(_answer(wanted, answers))
            else:
                kept.append(connection)
                asked.append(wanted)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        try:
            yield asked
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            server.join()
            for connection in kept:
                connection.close()


def http(status: int, body: str, *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", *headers)
    return ("".join(f"{line}\r\n" for line in lines) + f"\r\n{body}").encode()


def docker(number: str, api: str) -> bytes:
    """Return how Docker greets."""
    return http(200, "OK", f"Api-Version: {api}", f"Server: Docker/{number} (linux)")


def podman(number: str) -> bytes:
    """Return how Podman greets."""
    return http(200, "OK", "Api-Version: 1.41", f"Libpod-Api-Version: {number}", f"Server: Libpod/{number} (linux)")


def _serve(listener: socket.socket, answers: bytes | Mapping[str, object]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            path = connection.makefile("rb").readline().split()[1].decode()
            connection.sendall(answers if isinstance(answers, bytes) else _answer(path, answers))


def _answer(path: str, answers: Mapping[str, object]) -> bytes:
    for end, answer in answers.items():
        if path.endswith(end):
            return answer if isinstance(answer, bytes) else http(200, json.dumps(answer))
    return http(404, "{}")
