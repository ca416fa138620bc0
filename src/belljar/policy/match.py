"""Indexes that answer in the same time for ten entries and for a hundred thousand.

A name is looked up once for itself and once for each name above it; an address once for each prefix length in
use. Both are bounded by the length of a name or an address, never by the number of entries.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from belljar.names import Address
from belljar.policy.model import DomainPattern, Network, PortRange, Protocol, Scope

V = TypeVar("V")


class DomainIndex(Generic[V]):
    """Values by domain pattern."""

    __slots__ = ("_at", "_below")

    def __init__(self, entries: Iterable[tuple[DomainPattern, V]]) -> None:
        self._at: dict[str, list[V]] = {}
        self._below: dict[str, list[V]] = {}
        at, exact, below = self._at, Scope.EXACT, Scope.BELOW
        for (name, scope, _), value in entries:
            if scope is not below:
                if name in at:
                    at[name].append(value)
                else:
                    at[name] = [value]  # which takes less than an empty list that grows
            if scope is not exact:
                self._below.setdefault(name, []).append(value)

    def covering(self, name: str) -> list[V]:
        """Return the values of all patterns that cover a canonical name, the most specific first."""
        found = list(self._at.get(name, ()))
        below = self._below
        if below:
            dot = name.find(".")
            while dot != -1:
                name = name[dot + 1 :]
                if name in below:
                    found += below[name]
                dot = name.find(".")
        return found


class CidrIndex(Generic[V]):
    """Values by address range."""

    __slots__ = ("_by_version",)

    def __init__(self, entries: Iterable[tuple[Network, V]]) -> None:
        tables: dict[int, dict[int, dict[int, list[V]]]] = {4: {}, 6: {}}
        for network, value in entries:
            host_bits = network.max_prefixlen - network.prefixlen
            table = tables[network.version].setdefault(host_bits, {})
            table.setdefault(int(network.network_address) >> host_bits, []).append(value)
        self._by_version = {version: sorted(tables[version].items()) for version in (4, 6)}

    def containing(self, address: Address) -> list[V]:
        """Return the values of all ranges that contain an address, the narrowest first."""
        number = int(address)
        found: list[V] = []
        for host_bits, table in self._by_version[address.version]:
            if (values := table.get(number >> host_bits)) is not None:
                found += values
        return found


class PortSet(NamedTuple):
    """A set of ports for each protocol, as merged ranges."""

    tcp: tuple[tuple[int, int], ...]
    udp: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[PortRange], *, bare: tuple[Protocol, ...]) -> "PortSet":
        """Collect ranges; `bare` are the protocols meant by a range that names none."""
        ranges = tuple(ranges)
        tcp, udp = (
            _merge((r.first, r.last) for r in ranges if protocol in ((r.protocol,) if r.protocol else bare))
            for protocol in (Protocol.TCP, Protocol.UDP)
        )
        return cls(tcp, udp)

    def has(self, port: int, protocol: Protocol) -> bool:
        """Tell whether a port is in the set."""
        ranges = self.tcp if protocol is Protocol.TCP else self.udp
        position = bisect_right(ranges, (port, 65535)) - 1
        return position >= 0 and port <= ranges[position][1]

    def is_everything(self) -> bool:
        """Tell whether no port of any protocol is missing."""
        return self.tcp == self.udp and self.tcp in (((0, 65535),), ((1, 65535),))


class PortIndex(Generic[V]):
    """For each port, the first of several values."""

    __slots__ = ("_tcp", "_udp")

    def __init__(self, entries: Iterable[tuple[PortSet, V]]) -> None:
        entries = list(entries)
        self._tcp = _first_owners([(ports.tcp, value) for ports, value in entries])
        self._udp = _first_owners([(ports.udp, value) for ports, value in entries])

    def first(self, port: int, protocol: Protocol) -> V | None:
        """Return the first value whose set has a port."""
        edges, owners = self._tcp if protocol is Protocol.TCP else self._udp
        position = bisect_right(edges, port) - 1
        return owners[position] if position >= 0 else None


def _first_owners(entries: Sequence[tuple[Sequence[tuple[int, int]], V]]) -> tuple[list[int], list[V | None]]:
    """Cut the ports where any range begins or ends, and note for each piece the first value that covers it."""
    edges = sorted({edge for ranges, _ in entries for first, last in ranges for edge in (first, last + 1)})
    owners: list[V | None] = [None] * len(edges)
    for ranges, value in reversed(entries):
        for first, last in ranges:
            start, stop = bisect_left(edges, first), bisect_left(edges, last + 1)
            owners[start:stop] = [value] * (stop - start)
    return edges, owners


def _merge(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)
