"""Network interfaces of the namespace that the calling thread is in, and their addresses."""

import fcntl
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

_SIOCGIFFLAGS: Final = 0x8913
_IFF_UP: Final = 0x1

_ROUTES_V4: Final = Path("/proc/thread-self/net/fib_trie")
_ADDRESSES_V6: Final = Path("/proc/thread-self/net/if_inet6")


def others_up() -> list[str]:
    """Return the interfaces beside loopback that are up: ways out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        return [name for _, name in socket.if_nameindex() if name != "lo" and _is_up(asking, name)]


def own_addresses() -> set[IPv4Address | IPv6Address]:
    """Return every address that the namespace answers to, as the kernel lists them."""
    return {*_ipv4(_read(_ROUTES_V4)), *_ipv6(_read(_ADDRESSES_V6))}


def _is_up(asking: socket.socket, name: str) -> bool:
    answer = fcntl.ioctl(asking, _SIOCGIFFLAGS, struct.pack("16sH14x", name.encode(), 0))
    return bool(struct.unpack_from("16xH", answer)[0] & _IFF_UP)


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
