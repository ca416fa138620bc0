"""One server, from its state directory to its last request."""

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import uvicorn

from belljar.backends.interface import Backend
from belljar.control.database import Database
from belljar.control.http.app import make_app
from belljar.control.http.peers import CheckedProtocol
from belljar.control.hub import Hub
from belljar.control.services import Services
from belljar.control.stale import StaleRows
from belljar.control.store import SqliteStore
from belljar.control.tokens import TokenFile
from belljar.errors import BelljarError, reason
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.runtime.assembly import RuntimeParts, assemble
from belljar.sandbox.files.workdirs import SYSTEM

SOCKET: Final = "belljar.sock"
_THREADS: Final = 64
_GRACE_SECONDS: Final = 2
_IDLE_SECONDS: Final = 60
_BACKLOG: Final = 512


class ServeError(BelljarError):
    """The server cannot be started like this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How to serve."""

    state: Path
    backends: Callable[[Path], Mapping[str, Backend]]
    """Makes the backends, which keep what is theirs in the state directory."""

    host: str = "127.0.0.1"
    port: int = 8080
    names: tuple[str, ...] = ()
    workers: int = 1
    settings: Settings = DEFAULTS
    on_start: Callable[[int], None] = field(default=lambda _port: None)
    """Is told the port when the server listens."""


async def serve(serving: Serving, until: Callable[[], Awaitable[object]]) -> None:
    """Serve until something has happened. Sandboxes live on, without doors. Raises BelljarError."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    async with AsyncExitStack() as stack:
        state = stack.enter_context(_state_directory(serving.state))
        token = TokenFile(state)
        token.ensure()
        listening = [
            stack.enter_context(_tcp_socket(serving.host, serving.port)),
            stack.enter_context(_unix_socket(state / SOCKET)),
        ]
        port = listening[0].getsockname()[1]
        services = await stack.enter_async_context(_services(serving, state, port))
        config = uvicorn.Config(make_app(services, token, serving.names), http=CheckedProtocol, **_OPTIONS)
        server = _Server(config, on_start=partial(serving.on_start, port))
        running, ending = asyncio.create_task(server.serve(listening)), asyncio.ensure_future(until())
        await asyncio.wait((running, ending), return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        services.hub.disconnect_followers()
        await running


async def signalled() -> None:
    """Wait until somebody wants this process to end."""
    wanted, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, wanted.set)
    await wanted.wait()


_OPTIONS: Final[dict[str, Any]] = {
    "lifespan": "off",
    "ws": "none",
    "loop": "asyncio",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "proxy_headers": False,
    "timeout_graceful_shutdown": _GRACE_SECONDS,
    "timeout_keep_alive": _IDLE_SECONDS,
    "backlog": _BACKLOG,
}


class _Server(uvicorn.Server):
    """A server whose signals are ours, so that there is an end after its end; it says when it listens."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let requests finish for a while, and close what is still open then."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


@asynccontextmanager
async def _services(serving: Serving, state: Path, port: int) -> AsyncIterator[Services]:
    """Open the database and a runtime on it."""
    async with AsyncExitStack() as stack:
        database = Database(state / "belljar.db")
        stack.callback(database.close)
        stale = _stale_rows(state / "stale")
        stack.callback(stale.close)
        store = SqliteStore(database, stale)
        hub = Hub(store)
        await hub.start()
        stack.push_async_callback(hub.stop)
        parts = RuntimeParts(
            state=state,
            backends=serving.backends,
            store=store,
            events=hub,
            audit=hub.audit,
            workers=serving.workers,
            settings=serving.settings,
            control_port=port,
        )
        opened = await stack.enter_async_context(assemble(parts))
        yield Services(opened.context, opened.sandboxes, opened.networks, opened.commands, opened.workers, store, hub)


def _stale_rows(path: Path) -> StaleRows:
    try:
        return StaleRows(path)
    except OSError as error:
        raise ServeError(f"{path} cannot be written ({reason(error)}); make room on its disk") from None


@contextmanager
def _state_directory(path: Path) -> Iterator[Path]:
    """Have the directory be there, be ours alone, and be out of every sandbox's sight."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state, status = path.resolve(), path.stat()
    except OSError as error:
        raise ServeError(
            f"the state directory {path} cannot be made ({reason(error)}); name another with --state"
        ) from None
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ServeError(f"the state directory {state} is open to others, or another's; chmod 700 it, or name another")
    if any(map(state.is_relative_to, SYSTEM)):
        raise ServeError(
            f"the state directory {state} can be seen in sandboxes; name one outside of {', '.join(SYSTEM)}"
        )
    with open(state / "lock", "a") as lock:  # noqa: PTH123 - the descriptor is what counts
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServeError(
                f"another server uses the state directory {state}; end it, or name another directory"
            ) from None
        yield state


@contextmanager
def _tcp_socket(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            yield listening
    except OSError as error:
        raise ServeError(
            f"cannot listen on {host}:{port} ({reason(error)}); choose another with --host and --port"
        ) from None


@contextmanager
def _unix_socket(path: Path) -> Iterator[socket.socket]:
    path.unlink(missing_ok=True)  # we hold the lock: it is left over
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        path.chmod(0o600)
        yield listening
    path.unlink(missing_ok=True)
