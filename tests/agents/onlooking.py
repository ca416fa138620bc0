"""Every byte on a sandbox's side of its gateway: what goes over its loopback interface."""

import os
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from belljar.linux.namespaces import NetworkNamespace

_EVERY_PROTOCOL = 3
_SO_RCVBUFFORCE = 33
_ROOM = 64 << 20
_PATIENCE = 60


class Onlooker:
    """Watches the sandbox whose commands have something in their environment."""

    def __init__(self, variable: str) -> None:
        """Wait until it is there."""
        with _namespace_with(variable.encode()) as namespace:
            self._packets = namespace.run(_capture)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.seen = bytearray()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._packets.close()

    def _watch(self) -> None:
        while not self._is_over.is_set():
            try:
                self.seen += self._packets.recv(1 << 17)
            except TimeoutError:
                continue


def _namespace_with(variable: bytes) -> NetworkNamespace:
    given_up = time.monotonic() + _PATIENCE
    while time.monotonic() < given_up:
        for path in Path("/proc").iterdir():
            try:
                if path.name.isdecimal() and variable in (path / "environ").read_bytes():
                    return NetworkNamespace(os.open(path / "ns/net", os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                continue
        time.sleep(0.01)
    raise AssertionError("there is no such sandbox")


def _capture() -> socket.socket:
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_EVERY_PROTOCOL))
    packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _ROOM)
    packets.settimeout(0.1)
    return packets
