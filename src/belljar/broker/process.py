"""The broker's process: it takes connections on a socket that its owner has made, and ends with its owner."""

import argparse
import asyncio
import os
import signal
import socket
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio

from belljar.broker.events import EventLines, tell_of_ledger
from belljar.broker.handling import Broker
from belljar.broker.http.accepting import Acceptor
from belljar.broker.http.fairloop import FairLoop
from belljar.broker.http.hangups import Hangups
from belljar.broker.limits import for_this_process
from belljar.broker.serving import BrokerServing
from belljar.broker.spending.ledger import SpendingLedger
from belljar.broker.spending.sharedledger import open_ledger
from belljar.linux import coredumps

_BACKLOG: Final = 4096
"""How many connections may wait. The gateway does not: to it, a full queue is a broker that cannot be reached."""


def main() -> None:
    """Serve with what the owner has handed over."""
    parser = argparse.ArgumentParser(prog="python -m belljar.broker")
    parser.add_argument("--listen", type=int, required=True, metavar="FD")
    parser.add_argument("--events", type=int, required=True, metavar="FD")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR")
    arguments = parser.parse_args()
    for descriptor in (arguments.listen, arguments.events):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's interface
    run(socket.socket(fileno=arguments.listen), arguments.events, arguments.state, os.environ)


def run(listener: socket.socket, events: int, state: Path, environ: Mapping[str, str]) -> None:
    """Serve until the owner is gone, or a signal ends it."""
    with suppress(coredumps.CoreDumpsError):
        coredumps.prevent()  # there are keys in memory
    ledger = open_ledger(state)
    try:
        with asyncio.Runner(loop_factory=FairLoop) as runner:
            runner.run(_serve(listener, events, ledger, environ))
    finally:
        ledger.close()


class _Owner(asyncio.BaseProtocol):
    """Notices that the owner is gone."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def connection_lost(self, _: Exception | None) -> None:
        self.gone.set()


def _tell_of_bug(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Say that something went wrong, and nothing of what it was about: that may be a secret."""
    error = context.get("exception")
    where = traceback.extract_tb(error.__traceback__)[-1:] if error is not None else []
    place = f" at {where[0].filename}:{where[0].lineno}" if where else ""
    sys.stderr.write(f"belljar: internal error of the broker: {type(error).__name__}{place}\n")


async def _serve(listener: socket.socket, events: int, ledger: SpendingLedger, environ: Mapping[str, str]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_tell_of_bug)
    channel, owner = await loop.connect_write_pipe(_Owner, open(events, "wb", buffering=0))  # noqa: SIM115
    loop.add_signal_handler(signal.SIGTERM, owner.gone.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is meant for the owner
    lines = EventLines(channel)
    tell_of_ledger(ledger, lines)
    broker = Broker(environ, ledger, lines)
    hangups = Hangups(loop)
    limits = for_this_process()
    serving = BrokerServing(broker, limits, hangups)
    listener.setblocking(False)  # noqa: FBT003 - the standard library's interface
    listener.listen(_BACKLOG)
    acceptor = Acceptor(listener, serving.accounts, serving.from_sandboxes, limits.connections_each)
    await anyio.sleep(0)  # has it import what it would for the first request
    lines.tell({"event": "ready"})
    try:
        await owner.gone.wait()
    finally:
        acceptor.close()
        await broker.close()
        hangups.close()
        channel.close()
