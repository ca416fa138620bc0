"""Explicit proxies, for programs that insist on one: HTTP (CONNECT and absolute form) and SOCKS5.

A name that is given here is decided as a name, by the same function as everywhere, and what is inside a tunnel is
looked at as on a transparent connection: the server name in TLS has to agree with the name that was asked for.
"""

from typing import Final

from belljar.gateway.carrying import TRANSPARENT, Door, Front, carry, deny
from belljar.gateway.denials import http_response, say_goodbye, unreachable_response
from belljar.gateway.firstbytes import FirstBytes, HttpClient
from belljar.gateway.streams import Stream
from belljar.names import Host
from belljar.policy import Flow, Verdict, to_address, to_name
from belljar.wire.httphead import RequestHead, RequestHeadParser
from belljar.wire.httptarget import TargetForm
from belljar.wire.outcome import NEED_MORE
from belljar.wire.socks5 import NO_AUTHENTICATION, ConnectRequest, Greeting, RefusedSocks, Reply, Socks5Parser, reply

_FOR_THE_PROXY: Final = (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization")
_BAD_REQUEST: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _SocksFront(Front):
    connected = reply(Reply.SUCCEEDED)

    def denial(self, door: Door, verdict: Verdict, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return reply(Reply.NOT_ALLOWED)

    def failure(self, flow: Flow, error: BaseException, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return reply(Reply.CONNECTION_REFUSED if isinstance(error, ConnectionRefusedError) else Reply.HOST_UNREACHABLE)


class _ConnectFront(Front):
    connected = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def denial(self, door: Door, verdict: Verdict, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return http_response(verdict, door.jar.generation)

    def failure(self, flow: Flow, error: BaseException, said: FirstBytes | None) -> bytes:  # noqa: ARG002
        return unreachable_response(flow, error)


_SOCKS: Final = _SocksFront()
_CONNECT: Final = _ConnectFront()


async def handle_socks(door: Door, client: Stream) -> None:
    """Serve one client of the SOCKS5 proxy."""
    with door.jar.handshake():
        try:
            with door.loop.timeout(door.jar.limits.first_bytes_seconds):
                request = await _socks_request(client)
        except (OSError, TimeoutError):
            client.reset()
            return
    if isinstance(request, ConnectRequest):
        await _go(door, client, _flow(request.host, request.port), None, _SOCKS)
    else:
        await say_goodbye(door.loop, client, request)


async def handle_http(door: Door, client: Stream) -> None:
    """Serve one client of the HTTP proxy: a tunnel, or one request."""
    with door.jar.handshake():
        try:
            with door.loop.timeout(door.jar.limits.first_bytes_seconds):
                head, trailing = await _http_request(client)
        except (OSError, TimeoutError):
            client.reset()
            return
    if head is not None and head.form is TargetForm.AUTHORITY and head.port is not None:
        client.unread(trailing)
        await _go(door, client, _flow(head.host, head.port), None, _CONNECT)
    elif head is not None and head.form is TargetForm.ABSOLUTE:
        await _go(door, client, _flow(head.host, head.port or 80), _for_the_server(head, trailing), TRANSPARENT)
    else:
        await say_goodbye(door.loop, client, _BAD_REQUEST)


async def _socks_request(client: Stream) -> ConnectRequest | bytes:
    """Return what a client asks for, or the last words to one whose request cannot be served."""
    parser = Socks5Parser()
    answer = parser.feed(await _some(client))
    while not isinstance(answer, ConnectRequest | RefusedSocks):
        if isinstance(answer, Greeting):
            await client.write(NO_AUTHENTICATION)
            answer = parser.feed(b"")
        if answer is NEED_MORE:
            answer = parser.feed(await _some(client))
    if isinstance(answer, RefusedSocks):
        return answer.answer
    client.unread(parser.trailing)
    return answer


async def _http_request(client: Stream) -> tuple[RequestHead | None, bytes]:
    """Return the head of a request and what came behind it; None for what cannot be read."""
    parser = RequestHeadParser()
    answer = parser.feed(await _some(client))
    while answer is NEED_MORE:
        answer = parser.feed(await _some(client))
    return (answer, parser.trailing) if isinstance(answer, RequestHead) else (None, b"")


async def _some(client: Stream) -> bytes:
    data = await client.read()
    if not data:
        raise ConnectionResetError("the client has gone")
    return data


def _for_the_server(head: RequestHead, trailing: bytes) -> HttpClient:
    """Turn a request to a proxy into the request to the server, the last one on its connection."""
    path = "/" + head.target.partition("://")[2].partition("/")[2]
    lines = [f"{head.method} {path} HTTP/{head.version}".encode()]
    lines += [b": ".join(header) for header in head.headers if header[0] not in _FOR_THE_PROXY]
    if head.upgrade is None:
        lines.append(b"connection: close")
    else:
        lines.append(b"connection: upgrade")
    parser = RequestHeadParser()
    answer = parser.feed(b"\r\n".join(lines) + b"\r\n\r\n" + trailing)
    if not isinstance(answer, RequestHead):
        raise TypeError("a request that was read is no longer readable")
    return HttpClient(parser.received, answer)


async def _go(door: Door, client: Stream, flow: Flow, said: FirstBytes | None, front: Front) -> None:
    verdict = door.jar.decide(flow)
    if verdict.allowed:
        await carry(door, client, flow, said, front)
    else:
        await deny(door, client, verdict, said, front)


def _flow(host: Host, port: int) -> Flow:
    return to_name(host, port) if isinstance(host, str) else to_address(host, port)
