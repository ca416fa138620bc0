"""Connections of clients, each served to its end, and no more of them than there is room for."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from belljar.broker import preamble as preambles
from belljar.broker.dialects import error_form
from belljar.broker.doors import Door, inner_door
from belljar.broker.handling import Broker, refuse
from belljar.broker.http.connection import Connection
from belljar.broker.http.exchange import new_machine, next_request
from belljar.broker.http.fairloop import Accounts, work_for
from belljar.broker.http.hangups import Hangups
from belljar.broker.limits import BrokerLimits
from belljar.broker.refusals import RefusedRequest

_PREAMBLE_SECONDS: Final = 10.0
_SECONDS_TO_ASK: Final = 2.0
_MOST_TURNED_AWAY: Final = 32
"""How many may be told at a time that there is no room; each is a descriptor that nobody has counted on."""


class BrokerServing:
    """Serves connections, each in its sandbox's turns; counts them in all, and for each sandbox."""

    def __init__(self, broker: Broker, limits: BrokerLimits, hangups: Hangups | None = None) -> None:
        self._broker = broker
        self._limits = limits
        self._hangups = hangups
        self.accounts = Accounts()
        self._count = self._turned_away = 0
        self._of_each = Counter[str]()

    def from_sandboxes(self) -> Connection:
        """Return a connection that begins with the gateway's line."""
        return Connection(self._serve_sandbox, self._limits.stalled_seconds, self._hangups)

    def from_anyone(self, door: Door) -> Callable[[], Connection]:
        """Return how connections are made of which everything is known."""

        def make() -> Connection:
            return Connection(serve, self._limits.stalled_seconds, self._hangups)

        async def serve(connection: Connection) -> None:
            await self._counted(connection, door)

        return make

    async def _serve_sandbox(self, connection: Connection) -> None:
        line = b""
        while b"\n" not in line and len(line) <= preambles.MOST_BYTES:
            data = await connection.receive(_PREAMBLE_SECONDS)
            if not data:
                return
            line += data
        line, _, early = line.partition(b"\n")
        try:
            preamble = preambles.read(line)
        except preambles.PreambleError:
            return
        connection.put_back(early)
        await self._counted(connection, inner_door(preamble))

    async def _counted(self, connection: Connection, door: Door) -> None:
        sandbox = door.preamble.sandbox
        await work_for(self.accounts.of(sandbox))
        if self._count >= self._limits.connections or self._of_each[sandbox] >= self._limits.connections_each:
            await self._turn_away(connection, door)
            return
        self._count += 1
        self._of_each[sandbox] += 1
        try:
            await self._serve(connection, door)
        finally:
            self._count -= 1
            self._of_each[sandbox] -= 1
            if not self._of_each[sandbox]:
                del self._of_each[sandbox]

    async def _turn_away(self, connection: Connection, door: Door) -> None:
        """Say that there is no room to whoever asks soon; who does not takes up no room that others have."""
        if self._turned_away >= _MOST_TURNED_AWAY:
            return
        self._turned_away += 1
        try:
            hurried = self._limits._replace(idle_seconds=_SECONDS_TO_ASK)
            exchange = await next_request(connection, new_machine(), hurried)
            if exchange is not None:
                full = RefusedRequest(503, "full", "too many connections; wait a little")
                await refuse(exchange, door.preamble.service, full)
                await exchange.clean_up()
        except RefusedRequest as refusal:
            await _refuse_bytes(connection, door, refusal)
        finally:
            self._turned_away -= 1

    async def _serve(self, connection: Connection, door: Door) -> None:
        machine = new_machine()
        while True:
            try:
                exchange = await next_request(connection, machine, self._limits)
            except RefusedRequest as refusal:
                await _refuse_bytes(connection, door, refusal)
                return
            if exchange is None:
                return
            await self._broker.handle(door, exchange)
            if not await exchange.clean_up():
                return


async def _refuse_bytes(connection: Connection, door: Door, refusal: RefusedRequest) -> None:
    """Answer what is no request."""
    body = refusal.body(error_form(door.preamble.service, ""))
    head = f"HTTP/1.1 {refusal.status} RefusedRequest\r\ncontent-type: application/json\r\nconnection: close\r\n"
    await connection.reply(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
