"""How much the broker takes on, and how long it waits."""

import resource
from typing import Final, NamedTuple

_DESCRIPTORS_FOR_ITSELF: Final = 64
_MOST_CONNECTIONS: Final = 4096
_SHARES: Final = 4
"""How many sandboxes that take all they can get there is room for."""


class BrokerLimits(NamedTuple):
    """The bounds of one broker."""

    connections: int = _MOST_CONNECTIONS
    """From all sandboxes together."""

    connections_each: int = _MOST_CONNECTIONS // _SHARES
    """From one sandbox."""

    body: int = 32 << 20
    """Bytes of a request that has to be judged, and so is kept until it is whole."""

    idle_seconds: float = 75.0
    """For the head of a request, or more of its body."""

    stalled_seconds: float = 120.0
    """For a client to read anything of what it was sent."""


def for_this_process() -> BrokerLimits:
    """Return the bounds by how many files this process may open, which are made as many as may be."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return BrokerLimits()
    connections = max(min((hard - _DESCRIPTORS_FOR_ITSELF) // 2, _MOST_CONNECTIONS), 1)
    return BrokerLimits(connections, max(connections // _SHARES, 1))
