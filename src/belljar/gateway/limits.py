"""What one sandbox may use of the gateway, and what it uses: one that wants too much slows or fails itself alone."""

from dataclasses import dataclass
from typing import Final

from belljar.gateway.audit.events import Limit
from belljar.gateway.audit.observing import Observer
from belljar.gateway.io.budget import Buffers, Descriptors, Share

_DESCRIPTORS_PER_CONNECTION: Final = 2
_COPIES: Final = 3  # of what a client has said: as received, in the parser, and as a message
_ALWAYS: Final = _COPIES << 12  # a page is kept for every connection, as one is relayed
_MORE_TO_DIAL: Final = 1  # questions to a name server, and attempts to connect, come in pairs


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use of the gateway."""

    connections: int = 8192
    handshakes: int = 512
    """Connections whose destination is not settled yet."""

    first_bytes_seconds: float = 5.0
    """How long a client may take to say whom it wants, where that has to be known."""

    buffered_bytes: int = 64 << 20
    """How much may be held of what is on its way, before connections have to make do with a page each, and before what
    is not complete is refused."""

    dial_seconds: float = 15.0
    udp_flows: int = 1024
    udp_waiting_bytes: int = 1 << 20
    """Datagrams whose destination is not settled yet."""

    dns_per_second: int = 500
    names_under_wildcard: int = 1000
    """How many different names may be asked for under one wildcard: names can carry data."""


class LimitError(OSError):
    """A limit of the sandbox is reached; it has been noted already."""


class Usage:
    """What one sandbox uses of the gateway, which is never more than its limits say."""

    def __init__(self, limits: Limits, observer: Observer) -> None:
        self.limits = limits
        self.observer = observer
        self.connections = 0
        self.handshakes = 0
        self.udp_waiting_bytes = 0
        self.descriptors = Share(Descriptors())
        self.buffers = Buffers(limits.buffered_bytes)

    def admit_connection(self) -> bool:
        """Tell whether the sandbox may have one more connection, and count it until `connection_ended`."""
        if self.connections >= self.limits.connections:
            return self.refuse("connections")
        if not self.descriptors.take(_DESCRIPTORS_PER_CONNECTION):
            return self.refuse("descriptors")
        self.connections += 1
        return True

    def connection_ended(self) -> None:
        """Make room for another connection."""
        self.connections -= 1
        self.descriptors.give_back(_DESCRIPTORS_PER_CONNECTION)

    def admit_dial(self) -> None:
        """Account for what it takes to make a connection, until `dial_ended`. Raises LimitError."""
        if not self.descriptors.take(_MORE_TO_DIAL):
            self.refuse("descriptors")
            raise LimitError("no more descriptors")

    def dial_ended(self) -> None:
        """Make room for another dial."""
        self.descriptors.give_back(_MORE_TO_DIAL)

    def handshake(self) -> "_Handshake":
        """Count a connection whose destination is not settled yet, for the length of a block. Raises LimitError."""
        return _Handshake(self)

    def refuse(self, limit: Limit) -> bool:
        """Take note that a limit was reached; return False, for whoever asked whether there is room."""
        self.observer.limit_reached(limit)
        return False


class _Handshake:
    """A block during which a connection's destination is being settled."""

    __slots__ = ("_usage",)

    def __init__(self, usage: Usage) -> None:
        self._usage = usage

    def __enter__(self) -> None:
        usage = self._usage
        if usage.handshakes >= usage.limits.handshakes:
            usage.refuse("handshakes")
            raise LimitError("too many connections whose destination is not settled")
        usage.handshakes += 1

    def __exit__(self, *_: object) -> None:
        self._usage.handshakes -= 1


class Unfinished:
    """What is kept of a client's words because they are not complete, or because nobody has taken them yet."""

    __slots__ = ("_held", "_usage")

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._held = 0

    def keep(self, data: bytes) -> bytes:
        """Account for some more bytes, and return them. Raises LimitError if that is too much."""
        size, buffers = _COPIES * len(data), self._usage.buffers
        if self._held + size > _ALWAYS and buffers.left < size:
            self._usage.refuse("buffered_bytes")
            raise LimitError("too much that is not complete")
        buffers.left -= size
        self._held += size
        return data

    def let_go(self) -> None:
        """Take note that nothing is kept any more."""
        self._usage.buffers.left += self._held
        self._held = 0
