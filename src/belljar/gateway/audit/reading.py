"""Events that somebody else's audit log has told, read back from its lines."""

import json
from typing import Any, Final

from belljar.gateway.audit.events import EVENTS, Event

_TYPES: Final = {name: kind for kind, name in EVENTS.items()}


def read_event(line: bytes) -> Event | None:
    """Return the event that a line tells; None for what is none that we know."""
    try:
        told = json.loads(line)
        kind: Any = _TYPES[told["event"]]
        event: Event = kind(*(_value(told[field]) for field in kind._fields))
    except (ValueError, LookupError, TypeError):
        return None
    return event


def _value(told: Any) -> Any:
    return tuple(told) if isinstance(told, list) else told
