"""What the broker tells its owner: a line of JSON for each request, without keys, headers, bodies and queries."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from belljar.broker.spending.ledger import Key, SpendingLedger
from belljar.errors import printable

_MOST_TEXT: Final = 500
_MOST_BEHIND: Final = 4 << 20
"""How far the owner may be behind in reading, in bytes. Beyond, events are left out, and requests still served."""


class Events(Protocol):
    """Who hears of events."""

    def tell(self, event: Mapping[str, Any]) -> None:
        """Hear of one."""


class EventLines:
    """Events as lines on a stream."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    def tell(self, event: Mapping[str, Any]) -> None:
        """Write an event down, if there is a reader who keeps up."""
        if not self._transport.is_closing() and self._transport.get_write_buffer_size() < _MOST_BEHIND:
            self._transport.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")


def plain(text: str) -> str:
    """Return a text of a sandbox's as events have it."""
    return printable(text[:_MOST_TEXT])


def tell_of_ledger(ledger: SpendingLedger, events: Events) -> None:
    """Tell what had been used before."""
    for key, used in ledger.everything():
        events.tell({"event": "used", **_owner(key), "used": used._asdict()})


def _owner(key: Key) -> dict[str, str]:
    return {"group": key[1]} if key[0] == "group" else {"sandbox": key[1], "service": key[2]}
