"""The addresses of this machine's own interfaces, as the kernel lists them."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

_ROUTES_V4: Final = Path("/proc/thread-self/net/fib_trie")
_ADDRESSES_V6: Final = Path("/proc/thread-self/net/if_inet6")


def own_addresses() -> set[IPv4Address | IPv6Address]:
    """Return every address that the network namespace of the calling thread answers to."""
    return {*_ipv4(_read(_ROUTES_V4)), *_ipv6(_read(_ADDRESSES_V6))}


def _ipv4(trie: str) -> Iterator[IPv4Address]:
    """Take those leaves of the routing table that are local: below an address, a line says what it is."""
    leaf = ""
    for line in trie.splitlines():
        if "|--" in line:
            leaf = line.split()[-1]
        elif "/32 host LOCAL" in line:
            yield IPv4Address(leaf)


def _ipv6(table: str) -> Iterator[IPv6Address]:
    return (IPv6Address(int(line.split()[0], 16)) for line in table.splitlines())


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:  # the kernel has no IPv6
        return ""
