"""Virtual addresses: every name that a sandbox asks for gets an IPv4 and an IPv6 address of its own.

Theory of operation
-------------------
The sandbox's DNS answers with these addresses, so that the address a connection is made to tells its name exactly,
whatever is spoken on it. They come from 198.18.0.0/15 and from one ULA /64, and mean something in this sandbox only.
Number n of both pools belongs to the same name. The first and the last 256 numbers stay free, for the sandbox's own
addresses on its loopback device.

A number goes to another name only if nobody can still mean the old one: no connection to it is open (`hold`), and
the last answer has expired, with some slack for clients that are slow to use it. Until it is needed, an old name keeps
its number, for clients that remember longer than they should. Of a few thousand names that nobody means any more, the
one that was asked for least recently gives way first; that bounds the memory by what is in use.

Nothing else may pass for a virtual address. The gateway asks `name_of` before it decides on an address, and
`is_virtual` tells those that are nobody's, which must not be dialled either.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from belljar.names import Address

IPV4_POOL: Final = IPv4Network("198.18.0.0/15")
IPV6_POOL: Final = IPv6Network("fd62:656c:6c6a::/64")

TTL: Final = 60
"""How many seconds a client may remember an address."""

_SLACK: Final = 15
_LEFT_FREE: Final = 256
_CAPACITY: Final = IPV4_POOL.num_addresses - 2 * _LEFT_FREE
_KEPT: Final = 4096
_FIRST_IPV4: Final = int(IPV4_POOL.network_address) + _LEFT_FREE
_FIRST_IPV6: Final = int(IPV6_POOL.network_address) + _LEFT_FREE


class NoAddressLeftError(Exception):
    """Every virtual address is in use; the next is free when an answer expires or a connection ends."""


def is_virtual(address: Address) -> bool:
    """Tell whether an address is from the pools, whether or not it belongs to a name."""
    return address in (IPV4_POOL if address.version == 4 else IPV6_POOL)


class _Entry:
    __slots__ = ("addresses", "expires", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.addresses = IPv4Address(_FIRST_IPV4 + number), IPv6Address(_FIRST_IPV6 + number)
        self.expires = 0.0


class VirtualNames:
    """The names of one sandbox and their addresses."""

    def __init__(
        self,
        *,
        capacity: int = _CAPACITY,
        kept: int = _KEPT,
        remember: Callable[[int, str], None] = lambda _number, _name: None,
    ) -> None:
        """`remember` is told of a name's number before anybody can know the address."""
        self._capacity, self._kept = capacity, min(kept, capacity)
        self._remember = remember
        self._entries: dict[str, _Entry] = {}
        self._idle: OrderedDict[str, None] = OrderedDict()
        """Names without a connection, the one that was asked for or released least recently first."""

        self._connections: dict[str, int] = {}
        self._names: list[str] = []
        """The name of each number."""

    def __len__(self) -> int:
        return len(self._entries)

    def restore(self, names: Iterable[str], now: float) -> None:
        """Take over what was remembered, in the order of the numbers, as if it had all been handed out just now."""
        for number, name in enumerate(names):
            self._names.append(name)
            entry = self._entries[name] = _Entry(number)
            entry.expires = now + TTL + _SLACK
            self._idle[name] = None

    def lookup(self, name: str, now: float) -> tuple[IPv4Address, IPv6Address]:
        """Return the addresses of a canonical name, for an answer given now. Raises NoAddressLeftError."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._enter(name, now)
        entry.expires = now + TTL + _SLACK
        if name in self._idle:
            self._idle.move_to_end(name)
        return entry.addresses

    def name_of(self, address: Address) -> str | None:
        """Return the name that an address stands for."""
        number = int(address) - (_FIRST_IPV4 if address.version == 4 else _FIRST_IPV6)
        return self._names[number] if 0 <= number < len(self._names) else None

    def hold(self, name: str) -> None:
        """Keep the addresses of a name, if it has any or gets some, while a connection to it is open."""
        self._connections[name] = self._connections.get(name, 0) + 1
        self._idle.pop(name, None)

    def release(self, name: str) -> None:
        """Undo one `hold`."""
        self._connections[name] -= 1
        if not self._connections[name]:
            del self._connections[name]
            if name in self._entries:
                self._idle[name] = None

    def _enter(self, name: str, now: float) -> _Entry:
        number = self._free_number(now)
        self._names[number] = name
        self._remember(number, name)
        entry = self._entries[name] = _Entry(number)
        if name not in self._connections:
            self._idle[name] = None
        return entry

    def _free_number(self, now: float) -> int:
        if len(self._names) >= self._kept and self._idle:
            oldest = next(iter(self._idle))
            if self._entries[oldest].expires <= now:
                del self._idle[oldest]
                return self._entries.pop(oldest).number
        if len(self._names) >= self._capacity:
            raise NoAddressLeftError
        self._names.append("")
        return len(self._names) - 1
