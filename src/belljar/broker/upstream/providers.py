"""The way out: connections to providers, kept open between requests, and what to say when one cannot be had.

Theory of operation
-------------------
Each request has a connection to itself, so a sandbox that reads slowly holds up no other: the provider stops sending
on that connection, and on no other. HTTP/2 would put many requests on one, with one window for all of them, and have
those wait that are more than the server takes. Providers speak HTTP/1.1, and connections that are free are used again,
by the same sandbox: a pool looks at all of its connections for each request, and a sandbox may have a thousand.

TLS is verified in full, by the system's store or by SSL_CERT_FILE. Redirects are answers like any other.
"""

import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, urlsplit

import httpcore2

from belljar.broker.http.headers import Header
from belljar.broker.refusals import RefusedRequest
from belljar.broker.upstream.dialing import Dialer, TlsError
from belljar.broker.upstream.proxies import ProxyVariableError, proxy_for

_CONNECT_SECONDS: Final = 30.0
_WRITE_SECONDS: Final = 120.0
_ANSWER_SECONDS: Final = 900.0
"""How long a provider may say nothing at all."""

_IDLE_SECONDS: Final = 60.0
_MAX_IDLE: Final = 64
"""Connections that a sandbox may keep open to a provider."""

Kind = TypeVar("Kind", bound=BaseException)


class Sent(NamedTuple):
    """A request as it goes out."""

    method: str
    target: str
    """The path, and the query if there is one."""

    headers: list[Header]
    body: AsyncIterator[bytes] | None


_PoolKey = tuple[str, str, str]
"""Sandbox, scheme, and host with port."""


@dataclass(slots=True)
class _Pool:
    connections: httpcore2.AsyncConnectionPool
    used: float = 0.0
    """When it was last asked for a connection."""


class Upstreams:
    """All providers that were asked for, and each sandbox's connections to them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._context: ssl.SSLContext | None = None
        self._pools = dict[_PoolKey, _Pool]()
        self._swept = time.monotonic()

    async def send(self, sandbox: str, target: str, sent: Sent) -> httpcore2.Response:
        """Send a request; return the answer once its head is there, for the caller to close. Raises RefusedRequest."""
        url = urlsplit(target)
        host = url.hostname or ""
        request = httpcore2.Request(
            method=sent.method,
            url=httpcore2.URL(scheme=url.scheme, host=host, port=url.port, target=sent.target),
            headers=[(b"host", url.netloc.rpartition("@")[2].encode()), *sent.headers],
            content=sent.body if sent.body is not None else b"",
            extensions={
                "timeout": {
                    "connect": _CONNECT_SECONDS,
                    "pool": _CONNECT_SECONDS,
                    "read": _ANSWER_SECONDS,
                    "write": _WRITE_SECONDS,
                }
            },
        )
        try:
            return await (await self._pool(sandbox, url, host)).handle_async_request(request)
        except FAILURES as error:
            raise failed(host, error) from None

    async def close(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.connections.aclose()

    async def _pool(self, sandbox: str, url: SplitResult, host: str) -> httpcore2.AsyncConnectionPool:
        now = time.monotonic()
        await self._close_idle(now)
        key = (sandbox, url.scheme, url.netloc)
        if key not in self._pools:
            if self._context is None:
                self._context = ssl.create_default_context(cafile=self._environ.get("SSL_CERT_FILE") or None)
            connections = httpcore2.AsyncConnectionPool(
                ssl_context=self._context,
                proxy=proxy_for(url.scheme, host, self._environ),
                max_connections=None,  # requests are bounded before
                max_keepalive_connections=_MAX_IDLE,
                keepalive_expiry=_IDLE_SECONDS,
                network_backend=Dialer(),
            )
            self._pools[key] = _Pool(connections)
        pool = self._pools[key]
        pool.used = now
        return pool.connections

    async def _close_idle(self, now: float) -> None:
        """Close the pools of sandboxes that have asked for nothing for a while, most of which are gone."""
        if now - self._swept < _IDLE_SECONDS:
            return
        self._swept = now
        for key, pool in list(self._pools.items()):
            if now - pool.used > _IDLE_SECONDS and all(each.is_idle() for each in pool.connections.connections):
                del self._pools[key]
                await pool.connections.aclose()


FAILURES: Final = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    ProxyVariableError,
    OSError,
)
"""What can go wrong with an upstream while it answers."""


def failed(host: str, error: BaseException) -> RefusedRequest:
    """Return the answer to a request whose upstream has failed: in words, and without anything that was sent."""
    return RefusedRequest(502, *_explained(host, error))


def _explained(host: str, error: BaseException) -> tuple[str, str]:
    if isinstance(error, ProxyVariableError):
        return "proxy", f"{host} cannot be reached: {error}"
    if isinstance(error, httpcore2.ProxyError):
        return "proxy", f"the proxy on the way to {host} refuses: {str(error)[:200]}"
    if (cause := _cause(error, ssl.SSLCertVerificationError)) is not None:
        return "tls", f"the certificate of {host} cannot be verified: {cause.verify_message}"
    if isinstance(error, TlsError):
        return "tls", f"there is no TLS with {host}: the handshake failed"
    if isinstance(error, httpcore2.ConnectTimeout):
        return "unreachable", f"{host} did not answer within {_CONNECT_SECONDS:.0f} seconds"
    if isinstance(error, httpcore2.TimeoutException):
        return "timeout", f"{host} went silent"
    if _cause(error, socket.gaierror) is not None:
        return "unreachable", f"{host} has no address"
    if isinstance(error, httpcore2.ConnectError):
        return "unreachable", f"{host} cannot be reached: no connection"
    if isinstance(error, httpcore2.ProtocolError):
        return "answer", f"{host} did not answer in proper HTTP"
    return "broken", f"the connection to {host} broke off"


def _cause(error: BaseException | None, kind: type[Kind]) -> Kind | None:
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None
