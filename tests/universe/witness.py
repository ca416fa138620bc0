"""What the services have seen. A probe that was denied passes only if they have seen nothing of it."""

from typing import NamedTuple


class Seen(NamedTuple):
    """One thing that reached a service."""

    kind: str
    """connection, datagram, handshake, request, question or tunnel"""

    address: str
    port: int
    """Where it arrived, not whence it came."""

    what: str = ""
    """The server name of a handshake, the method, host and target of a request, the name and type of a question, the
    target of a tunnel and what the proxy said to it."""


class Witness:
    """An account of everything in its order. Any thread may read it while another one writes."""

    def __init__(self) -> None:
        self._seen: list[Seen] = []

    @property
    def seen(self) -> list[Seen]:
        """Everything so far."""
        return list(self._seen)

    def of_kind(self, kind: str) -> list[Seen]:
        """Return what was seen of one kind."""
        return [seen for seen in self.seen if seen.kind == kind]

    def record(self, seen: Seen) -> None:
        """Note something down."""
        self._seen.append(seen)

    def forget(self) -> None:
        """Start with a clean sheet."""
        self._seen.clear()
