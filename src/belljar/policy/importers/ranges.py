"""Sets of addresses and ports: what is in both, what is in neither."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, summarize_address_range

from belljar.policy.model import Network, PortRange


def all_but(networks: Iterable[Network]) -> tuple[Network, ...]:
    """Return the ranges that hold every address except those given."""
    networks = tuple(networks)
    rest: list[Network] = []
    for version, end in ((4, 1 << 32), (6, 1 << 128)):
        free_from = 0
        for first, last in sorted(_ends(network) for network in networks if network.version == version):
            rest += _between(version, free_from, first)
            free_from = max(free_from, last + 1)
        rest += _between(version, free_from, end)
    return tuple(rest)


def within(one: Network, other: Network) -> bool:
    """Tell whether a range is part of another."""
    (first, last), (other_first, other_last) = _ends(one), _ends(other)
    return one.version == other.version and other_first <= first and last <= other_last


def intersect(ports: Iterable[PortRange], others: Iterable[PortRange]) -> tuple[PortRange, ...]:
    """Return the ports that are in both."""
    others = tuple(others)
    pairs = [(one, other) for one in ports for other in others]
    common = (
        PortRange(max(one.first, other.first), min(one.last, other.last), one.protocol or other.protocol)
        for one, other in pairs
    )
    return tuple(dict.fromkeys(ports for ports in common if ports.first <= ports.last))


def _ends(network: Network) -> tuple[int, int]:
    return int(network.network_address), int(network.broadcast_address)


def _between(version: int, first: int, end: int) -> Iterator[Network]:
    if first >= end:
        return iter(())
    if version == 4:
        return summarize_address_range(IPv4Address(first), IPv4Address(end - 1))
    return summarize_address_range(IPv6Address(first), IPv6Address(end - 1))
