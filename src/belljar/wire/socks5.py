"""The server's side of SOCKS version 5 (RFC 1928): greeting, then one request, without I/O.

There are two steps, and some clients do not wait in between. So ``feed()`` answers with one step at a time:

    client: which ways to authenticate it knows         feed(data) -> Greeting
    server: NO_AUTHENTICATION
    client: what to connect to                          feed(b""), then feed(data) -> ConnectRequest
    server: reply(Reply.SUCCEEDED), or why not

Only CONNECT is there, without authentication: whoever can reach the listener is inside the sandbox already. A
refusal carries the bytes that tell the client so. A name is read in its one spelling; an address that is sent
as a name is an address.
"""

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from belljar.names import Address, Host, SpellingError, parse_host
from belljar.wire.outcome import NEED_MORE, Fault, NeedMore, Refuse

NO_AUTHENTICATION: Final = b"\x05\x00"
"""The answer to a Greeting: go on without."""

NO_ACCEPTABLE_METHOD: Final = b"\x05\xff"

_VERSION: Final = 5
_NO_AUTHENTICATION_METHOD: Final = 0
_CONNECT: Final = 1
_IPV4: Final = 1
_NAME: Final = 3
_IPV6: Final = 4
_UNSPECIFIED: Final = IPv4Address(0)
_SOCKS4_REJECTED: Final = b"\x00\x5b" + bytes(6)


class Reply(IntEnum):
    """How a request was answered (RFC 1928, 6)."""

    SUCCEEDED = 0
    GENERAL_FAILURE = 1
    NOT_ALLOWED = 2
    NETWORK_UNREACHABLE = 3
    HOST_UNREACHABLE = 4
    CONNECTION_REFUSED = 5
    TTL_EXPIRED = 6
    COMMAND_NOT_SUPPORTED = 7
    ADDRESS_TYPE_NOT_SUPPORTED = 8


def reply(code: Reply, address: Address = _UNSPECIFIED, port: int = 0) -> bytes:
    """Write a reply, with the address and port that the server's own end of the connection is bound to."""
    kind = _IPV4 if isinstance(address, IPv4Address) else _IPV6
    return bytes([_VERSION, code, 0, kind]) + address.packed + port.to_bytes(2)


@dataclass(frozen=True, slots=True)
class Greeting:
    """The client has said hello; it can do without authentication."""

    methods: frozenset[int]
    """All the ways to authenticate that it offers, by number."""


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """Where the client wants to be connected to."""

    host: Host
    port: int


@dataclass(frozen=True, slots=True)
class RefusedSocks(Refuse):
    """A client that is not served."""

    answer: bytes
    """What to send before closing; empty if the client does not speak SOCKS."""


class Socks5Parser:
    """Reads what a client sends, from the start of a stream up to its request."""

    __slots__ = ("_final", "_greeted", "_unread")

    def __init__(self) -> None:
        self._unread = bytearray()
        self._greeted = False
        self._final: ConnectRequest | RefusedSocks | None = None

    @property
    def trailing(self) -> bytes:
        """What came behind the request: data for the other end, from a client that does not wait."""
        return bytes(self._unread) if isinstance(self._final, ConnectRequest) else b""

    def feed(self, data: bytes) -> Greeting | ConnectRequest | NeedMore | RefusedSocks:
        """Take the next piece of the stream, and read one step.

        After a Greeting, feed ``b""`` first: the request may be here already. After a request or a refusal,
        further pieces are ignored and not kept.
        """
        if self._final is None:
            self._unread += data
            try:
                return self._read_request() if self._greeted else self._read_greeting()
            except _RefusedError as refused:
                self._final = refused.refusal
        return self._final

    def _read_greeting(self) -> Greeting | NeedMore:
        _check_version(self._unread)
        end = 2 + (self._unread[1] if len(self._unread) > 1 else 0)
        if len(self._unread) < end:
            return NEED_MORE
        methods = frozenset(self._unread[2:end])
        if _NO_AUTHENTICATION_METHOD not in methods:
            raise _unsupported("the client insists on authentication", NO_ACCEPTABLE_METHOD)
        del self._unread[:end]
        self._greeted = True
        return Greeting(methods)

    def _read_request(self) -> ConnectRequest | NeedMore:
        _check_request(self._unread)
        if len(self._unread) < 5:
            return NEED_MORE
        kind = self._unread[3]
        start = 5 if kind == _NAME else 4
        end = start + {_IPV4: 4, _IPV6: 16, _NAME: self._unread[4]}[kind]
        if len(self._unread) < end + 2:
            return NEED_MORE
        host = _read_host(kind, bytes(self._unread[start:end]))
        port = int.from_bytes(self._unread[end : end + 2])
        if port == 0:
            raise _malformed("the request is for port 0")
        del self._unread[: end + 2]
        self._final = ConnectRequest(host, port)
        return self._final


class _RefusedError(Exception):
    """Carries a refusal up to feed(); never leaves this module."""

    def __init__(self, fault: Fault, detail: str, answer: bytes) -> None:
        self.refusal = RefusedSocks(fault, detail, answer)


def _malformed(detail: str) -> _RefusedError:
    return _RefusedError(Fault.MALFORMED_SOCKS, detail, reply(Reply.GENERAL_FAILURE))


def _unsupported(detail: str, answer: bytes) -> _RefusedError:
    return _RefusedError(Fault.UNSUPPORTED_SOCKS, detail, answer)


def _check_version(greeting: bytearray) -> None:
    if greeting.startswith(b"\x04"):
        raise _unsupported("the client speaks SOCKS version 4", _SOCKS4_REJECTED)
    if greeting and greeting[0] != _VERSION:
        raise _RefusedError(Fault.MALFORMED_SOCKS, "the first byte is not of SOCKS", b"")


def _check_request(request: bytearray) -> None:
    """Check the four bytes before the address, as far as they are there."""
    size = len(request)
    if size > 0 and request[0] != _VERSION:
        raise _malformed("the request is not of SOCKS version 5")
    if size > 1 and request[1] != _CONNECT:
        raise _unsupported("the command is not CONNECT", reply(Reply.COMMAND_NOT_SUPPORTED))
    if size > 2 and request[2] != 0:
        raise _malformed("the reserved byte is not zero")
    if size > 3 and request[3] not in (_IPV4, _NAME, _IPV6):
        raise _unsupported("the type of address is unknown", reply(Reply.ADDRESS_TYPE_NOT_SUPPORTED))


def _read_host(kind: int, host: bytes) -> Host:
    if kind == _IPV4:
        return IPv4Address(host)
    if kind == _IPV6:
        return IPv6Address(host)
    try:
        # The decoding is strict, because the reader of names takes international ones as well.
        return parse_host(host.decode("ascii"))
    except (UnicodeDecodeError, SpellingError):
        raise _malformed("the name is not a host name or an address") from None
