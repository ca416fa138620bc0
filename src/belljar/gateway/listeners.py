"""The sockets that a gateway is given: made inside a sandbox, served from outside of it."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from socket import socket
from typing import Final


@dataclass(frozen=True, slots=True)
class Listeners:
    """All listeners of one sandbox, non-blocking; each group has a socket for each family that the sandbox has."""

    tcp: tuple[socket, ...]
    """Redirected TCP: SO_ORIGINAL_DST of an accepted connection is where the client wanted to go."""

    dns_udp: tuple[socket, ...]
    dns_tcp: tuple[socket, ...]
    """Redirected DNS: answers go back from the address that was asked."""

    http_proxy: tuple[socket, ...]
    socks: tuple[socket, ...]
    """Explicit proxies, for programs that insist on one."""

    udp: tuple[socket, ...]
    """Diverted UDP, each datagram with its destination (IP_RECVORIGDSTADDR); empty where UDP is refused."""

    udp_answers: tuple[socket, ...]
    """Raw sockets for answers to diverted UDP, from whatever address was asked (`belljar.wire.packets`)."""

    def groups(self) -> dict[str, tuple[socket, ...]]:
        """Return the sockets by the name of their group; `Listeners(**groups)` makes them listeners again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __iter__(self) -> Iterator[socket]:
        for group in self.groups().values():
            yield from group

    def close(self) -> None:
        """Close every listener: the sandbox is left without any."""
        for listener in self:
            listener.close()


NO_LISTENERS: Final = Listeners((), (), (), (), (), (), ())
"""Those of a sandbox that needs none."""
