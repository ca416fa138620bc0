"""How the HTTP library reaches the network: with streams and TLS that hold little.

Its usual way, through anyio, takes more than half of the time that an event needs on its way through the broker.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore2
from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream

from belljar.broker.http.bytestream import ByteStream, StalledError
from belljar.broker.upstream.tls import TlsStream

_SECONDS_BETWEEN_ADDRESSES: Final = 0.25
_MAX_READ: Final = 16 << 10
"""Bytes that are parsed at once: an answer may consist of the smallest chunks, events and interim heads."""


class Dialer(AsyncNetworkBackend):
    """Makes connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the library's interface
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - the library's interface
    ) -> AsyncNetworkStream:
        """Connect, to whichever address of a host answers first."""
        try:
            async with asyncio.timeout(timeout):
                _, stream = await asyncio.get_running_loop().create_connection(
                    ByteStream, host, port, happy_eyeballs_delay=_SECONDS_BETWEEN_ADDRESSES
                )
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout from error
        except OSError as error:
            raise httpcore2.ConnectError from error
        return Dialled(stream)


class TlsError(httpcore2.ConnectError):
    """The other side is there, and TLS with it cannot be had."""


class Dialled(AsyncNetworkStream):
    """A connection, as the library knows it."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._bytes: ByteStream | TlsStream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Return what has arrived."""
        try:
            return await self._bytes.receive(timeout, _MAX_READ)
        except TimeoutError as error:
            raise httpcore2.ReadTimeout from error
        except OSError as error:
            raise httpcore2.ReadError from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send."""
        try:
            await self._bytes.send(buffer, timeout)
        except (StalledError, OSError) as error:
            raise httpcore2.WriteError from error

    async def aclose(self) -> None:
        """End at once: whoever closes has read all, or wants no more."""
        self._stream.transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> AsyncNetworkStream:
        """Speak TLS from here on, also within TLS to a proxy."""
        secured = TlsStream(self._bytes, ssl_context, server_hostname)
        try:
            await secured.shake_hands(timeout)
        except TimeoutError as error:
            await self.aclose()
            raise httpcore2.ConnectTimeout from error
        except (OSError, StalledError) as error:
            await self.aclose()
            raise TlsError from error
        self._bytes = secured
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return what the library wants to know: whether the other side has ended a connection that nobody uses."""
        return self._bytes.has_something if info == "is_readable" else None
