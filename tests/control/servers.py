"""Servers to test with: on a thread, over the in-memory backend, so that a test sees both sides."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import httpx2

from belljar.backends.interface import Backend
from belljar.control.serving import SOCKET, Serving, serve
from belljar.control.tokens import TokenFile
from belljar.testing.memory import MemoryBackend, MemoryWorld

PATIENCE = 60.0
API = "http://localhost/api/v1"


class Event(NamedTuple):
    """An event of a stream, as EventSource would see it."""

    event: str
    data: dict[str, Any]
    id: int = 0


class Server:
    """A server that runs until it is stopped; another one can go on with the same state and world."""

    backend = MemoryBackend

    def __init__(self, state: Path, world: MemoryWorld, **options: Any) -> None:
        self.state, self.world = state, world
        self._started: Future[tuple[int, Callable[[], object]]] = Future()
        self._options = {"port": 0, **options}
        self._thread = Thread(target=self._run)
        self._thread.start()
        self.port, self._stop = self._started.result(PATIENCE)
        self.client = httpx2.Client(
            base_url=API, transport=httpx2.HTTPTransport(uds=str(state / SOCKET), verify=False), timeout=PATIENCE
        )

    def backends(self) -> Mapping[str, Backend]:
        """What it makes sandboxes with."""
        return {"memory": self.backend(self.world)}

    @property
    def token(self) -> str:
        return TokenFile(self.state).read()

    def over_tcp(self, **headers: str) -> httpx2.Client:
        """A client that comes over TCP, with nothing but what it is given."""
        return httpx2.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=PATIENCE, verify=False)

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        self.client.close()
        if self._thread.is_alive():
            self._stop()
            self._thread.join(PATIENCE)

    def sandbox(self, **body: Any) -> str:
        """Make a sandbox, and return its name."""
        answer = self.client.post("/sandboxes", json={"backend": "memory", **body})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def path(self, sandbox: str, rest: str = "") -> str:
        return f"/sandboxes/{sandbox}{rest}"

    def status(self, sandbox: str) -> str:
        """Return how a sandbox is; `gone` if there is none."""
        answer = self.client.get(self.path(sandbox))
        return "gone" if answer.status_code == 404 else str(answer.json()["status"])

    @contextmanager
    def events(self, path: str, **headers: str) -> Iterator[Iterator[Event]]:
        with self.client.stream("GET", path, headers=headers) as answer:
            assert answer.status_code == 200
            yield parse_events(answer.iter_lines())

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def on_start(port: int) -> None:
            self._started.set_result((port, lambda: loop.call_soon_threadsafe(stopped.set)))

        serving = Serving(state=self.state, backends=lambda _: self.backends(), on_start=on_start, **self._options)
        await serve(serving, stopped.wait)


def parse_events(lines: Iterator[str]) -> Iterator[Event]:
    """Read a stream of events."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
        elif "data" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), int(fields.get("id", 0)))
            fields = {}


def until(happened: Callable[[], Any]) -> Any:
    """Wait for something that the server will bring about, and return it."""
    given_up = time.monotonic() + PATIENCE
    while not (result := happened()):
        assert time.monotonic() < given_up, "it never happened"
        time.sleep(0.005)
    return result


def problem(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Return what is wrong with a request that was refused."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    told: dict[str, Any] = answer.json()
    assert (answer.status_code, told["status"], told["code"]) == (status, status, code), told
    return told
