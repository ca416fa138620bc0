"""The broker by itself, on a TCP port: for programs that are in no sandbox of ours, on this machine or another."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from belljar.broker import limits
from belljar.broker.doors import Door
from belljar.broker.events import Events
from belljar.broker.handling import Broker
from belljar.broker.http.fairloop import FairLoop
from belljar.broker.http.hangups import Hangups
from belljar.broker.preamble import Preamble
from belljar.broker.secrets import Secret
from belljar.broker.serving import BrokerServing
from belljar.broker.spending.ledger import SpendingLedger
from belljar.errors import BelljarError
from belljar.linux import coredumps
from belljar.policy.services import Service

SANDBOX = "proxy"
"""What its clients are counted as."""


class ListenError(BelljarError):
    """The address cannot be listened on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standalone:
    """How to serve by itself."""

    service: Service
    host: str
    port: int
    token: Secret | None
    refuse_tools: bool
    state: Path
    on_start: Callable[[int], None]
    """Is told the port."""

    on_event: Callable[[Mapping[str, Any]], None]


class _Told(Events):
    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        self._hear = hear

    def tell(self, event: Mapping[str, Any]) -> None:
        self._hear(event)


def serve(standalone: Standalone, environ: Mapping[str, str]) -> None:
    """Serve until a signal ends it. Raises ListenError."""
    with suppress(coredumps.CoreDumpsError):
        coredumps.prevent()  # there are keys in memory
    ledger = SpendingLedger(standalone.state)
    try:
        with asyncio.Runner(loop_factory=FairLoop) as runner:
            runner.run(_serve(standalone, ledger, environ))
    finally:
        ledger.close()


async def _serve(standalone: Standalone, ledger: SpendingLedger, environ: Mapping[str, str]) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    broker = Broker(environ, ledger, _Told(standalone.on_event))
    preamble = Preamble(SANDBOX, standalone.service, standalone.refuse_tools)
    hangups = Hangups(loop)
    serving = BrokerServing(broker, limits.for_this_process(), hangups)
    connections = serving.from_anyone(Door(preamble, token=standalone.token))
    try:
        server = await loop.create_server(connections, standalone.host, standalone.port)
    except OSError as error:
        # asyncio says it at length; a name without an address has a number of its own
        why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        raise ListenError(
            f"{standalone.host}:{standalone.port} cannot be listened on: {why}; choose another with --host "
            "and --port (0 takes any port that is free)"
        ) from None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    standalone.on_start(server.sockets[0].getsockname()[1])
    try:
        await ended.wait()
    finally:
        server.close()
        await broker.close()
        hangups.close()
