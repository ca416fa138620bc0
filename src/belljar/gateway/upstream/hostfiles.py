"""What the host's own files say about names: `/etc/hosts`, and the name servers in `/etc/resolv.conf`."""

import os
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from belljar.names import Address, SpellingError, parse_address, parse_authority

DNS_PORT: Final = 53

T = TypeVar("T")


class Server(NamedTuple):
    """Where a name server listens."""

    address: Address
    port: int = DNS_PORT

    def __str__(self) -> str:
        host = f"[{self.address}]" if self.address.version == 6 else str(self.address)
        return f"{host}:{self.port}"


def parse_server(text: str) -> Server:
    """Read ADDRESS[:PORT]; an IPv6 address wants brackets if a port follows. Raises SpellingError."""
    if text.count(":") > 1 and not text.startswith("["):
        return Server(parse_address(text))
    address, port = parse_authority(text)
    if isinstance(address, str):
        raise SpellingError("is a name, and a name server is given by its address")
    return Server(address, port or DNS_PORT)


class WatchedFile(Generic[T]):
    """What a file says, read again whenever it has changed; a file that cannot be read says what an empty one does."""

    def __init__(self, path: Path, parse: Callable[[bytes], T]) -> None:
        self._path, self._name = path, str(path)
        self._parse = parse
        self._version: tuple[int, ...] | None = None
        self._parsed = parse(b"")

    def read(self) -> T:
        """Return what the file says now."""
        # The version is taken first: if the file changes before it is read, the next call reads it again.
        version = self._current_version()
        if version != self._version:
            self._parsed = self._parse(self._contents())
            self._version = version
        return self._parsed

    def _current_version(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self._name)  # noqa: PTH116 - for every connection, and a path takes three times as long
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _contents(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""


def nameservers(resolv_conf: bytes) -> tuple[Server, ...]:
    """Return the name servers in their order; lines that cannot be read are skipped, as the C library does."""
    lines = (line.split() for line in resolv_conf.decode("ascii", "replace").splitlines())
    addresses = (_local_address(words[1]) for words in lines if words[:1] == ["nameserver"] and len(words) > 1)
    return tuple(Server(address) for address in addresses if address is not None)


def _local_address(text: str) -> Address | None:
    # Not parse_address: a zone, which it refuses, is at home in a file of this machine (fe80::1%eth0).
    try:
        return ip_address(text)
    except ValueError:
        return None


class Hosts:
    """The host's `/etc/hosts`.

    It is searched, not turned into a table: lists of blocked names with 200,000 lines are kept in it, too.
    """

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, bytes.lower)

    def addresses(self, name: str) -> tuple[Address, ...]:
        """Return the addresses that are given for exactly this canonical name."""
        text, wanted = self._file.read(), name.encode("ascii")
        if wanted not in text:
            return ()
        found = (_address_for(wanted, line) for line in text.splitlines() if wanted in line)
        return tuple(dict.fromkeys(address for address in found if address is not None))


def _address_for(wanted: bytes, line: bytes) -> Address | None:
    address, *names = line.partition(b"#")[0].split() or [b""]
    if wanted not in names:
        return None
    try:
        return parse_address(address.decode("ascii", "replace"))
    except SpellingError:
        return None
