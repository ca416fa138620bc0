"""How each kind of client is told what became of its connection."""

from typing import Final

from belljar.gateway.denials import TLS_ACCESS_DENIED, http_response, unreachable_response
from belljar.gateway.firstbytes import FirstBytes, HttpClient, TlsClient
from belljar.policy import Flow, Verdict
from belljar.wire.socks5 import Reply, reply


class Front:
    """For those who know of no gateway: they are told in the protocol that they speak with the server."""

    connected = b""
    """What a client is told before the bytes of the server."""

    def denial(self, verdict: Verdict, generation: int, said: FirstBytes | None) -> bytes:
        """Return the denial; nothing where it can only be a reset."""
        if isinstance(said, TlsClient):
            return TLS_ACCESS_DENIED
        if isinstance(said, HttpClient):
            return http_response(verdict, generation)
        return b""

    def failure(self, flow: Flow, error: OSError, said: FirstBytes | None) -> bytes:
        """Return what a client is told when the destination could not be reached."""
        return unreachable_response(flow, error) if isinstance(said, HttpClient) else b""


class _SocksFront(Front):
    connected = reply(Reply.SUCCEEDED)

    def denial(self, verdict: Verdict, generation: int, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return reply(Reply.NOT_ALLOWED)

    def failure(self, flow: Flow, error: OSError, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return reply(Reply.CONNECTION_REFUSED if isinstance(error, ConnectionRefusedError) else Reply.HOST_UNREACHABLE)


class _HttpProxyFront(Front):
    connected = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def denial(self, verdict: Verdict, generation: int, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return http_response(verdict, generation)

    def failure(self, flow: Flow, error: OSError, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return unreachable_response(flow, error)


TRANSPARENT: Final = Front()
SOCKS: Final = _SocksFront()
HTTP_PROXY: Final = _HttpProxyFront()
