"""Serve the judge's API: on a unix socket for a sandbox of this machine, or on TCP for others.

A client that sends nothing, or reads nothing, is disconnected: sandboxes hold the other ends, and connections are few.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from belljar.errors import BelljarError, reason

_IDLE_TIMEOUT: Final = 30.0
_READ_TIMEOUT: Final = 30.0
_MAX_CONNECTIONS: Final = 256
_BACKLOG: Final = 256
_GRACE_SECONDS: Final = 2
_OPTIONS: Final[dict[str, Any]] = {
    "lifespan": "off",
    "ws": "none",
    "loop": "asyncio",
    "log_config": None,
    "log_level": "error",  # a client can bring about warnings without end
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_graceful_shutdown": _GRACE_SECONDS,
    "timeout_keep_alive": int(_IDLE_TIMEOUT),
    "limit_concurrency": _MAX_CONNECTIONS,
    "backlog": _BACKLOG,
}


class JudgeServerError(BelljarError):
    """The judge cannot be served like this."""


@asynccontextmanager
async def serve_on_socket(app: ASGIApp, path: Path) -> AsyncIterator[None]:
    """Serve on a unix socket, which only this user can connect to. Raises JudgeServerError.

    The directory of the socket must be this user's alone: until its mode is set, the directory protects it.
    """
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            path.unlink(missing_ok=True)
            listening.bind(str(path))
            path.chmod(0o600)
        except OSError as error:
            raise JudgeServerError(
                f"the judge cannot listen on {path} ({reason(error)}); check its directory"
            ) from None
        try:
            async with _serve(app, listening):
                yield
        finally:
            path.unlink(missing_ok=True)


@asynccontextmanager
async def serve_on_port(app: ASGIApp, host: str, port: int) -> AsyncIterator[int]:
    """Serve on an address of this machine, and yield the port. Raises JudgeServerError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError as error:
            raise _cannot_listen(host, port, error) from None
        async with _serve(app, listening):
            yield listening.getsockname()[1]


@asynccontextmanager
async def _serve(app: ASGIApp, listening: socket.socket) -> AsyncIterator[None]:
    server = _QuietServer(uvicorn.Config(app, http=_TimedProtocol, **_OPTIONS))
    running = asyncio.create_task(server.serve([listening]))
    listens = asyncio.create_task(server.listens.wait())
    await asyncio.wait((running, listens), return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        listens.cancel()
        raise JudgeServerError("the judge's server has ended before it listened; see the log")
    try:
        yield
    finally:
        server.should_exit = True
        listens.cancel()
        await running


class _QuietServer(uvicorn.Server):
    """A server that leaves signals alone, and leaves no connection behind."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _TimedProtocol(H11Protocol):
    """HTTP/1.1 whose clients have to go on: with a request once they are connected, and with reading its answer."""

    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # the name differs upstream
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(_READ_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _expect_request(self) -> None:
        """Close the connection if no request has begun after a while, even if its last answer was not read yet."""
        self.loop.call_later(_IDLE_TIMEOUT, self._abort_idle, self.cycle)

    def _abort_idle(self, last: object) -> None:
        if self.cycle is last:
            self.transport.abort()


def _cannot_listen(host: str, port: int, error: OSError) -> JudgeServerError:
    return JudgeServerError(
        f"the judge cannot listen on {host}:{port} ({reason(error)}); choose another with --host and --port"
    )
