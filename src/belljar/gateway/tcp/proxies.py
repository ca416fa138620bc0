"""Explicit proxies, for programs that insist on one: HTTP (CONNECT and absolute form) and SOCKS5.

A name that is given here is decided as a name, by the same function as everywhere, and what is inside a tunnel is
looked at as on a transparent connection: the server name in TLS has to agree with the name that was asked for.
"""

from belljar.gateway.io.streams import Stream
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.tcp.claims import unreadable
from belljar.gateway.tcp.denials import HTTP_PROXY, SOCKS, TRANSPARENT, Front, deny, say_goodbye
from belljar.gateway.tcp.firstbytes import FirstBytes, HttpClient
from belljar.gateway.tcp.flow import TcpFlow
from belljar.gateway.tcp.rewriting import rewrite_for_server
from belljar.policy import Flow, Verdict
from belljar.wire.http.head import Http2Preface, RequestHead, RequestHeadParser
from belljar.wire.http.target import TargetForm
from belljar.wire.outcome import NEED_MORE, Fault, Refuse
from belljar.wire.socks5 import NO_AUTHENTICATION, ConnectRequest, Greeting, RefusedSocks, Socks5Parser


async def handle_socks(sandbox: SandboxState, client: Stream) -> None:
    """Serve one client of the SOCKS5 proxy."""
    with sandbox.handshake():
        try:
            with sandbox.loop.timeout(sandbox.limits.first_bytes_seconds):
                request = await _socks_request(client)
        except OSError:
            client.reset()
            return
    if isinstance(request, ConnectRequest):
        await _go(sandbox, client, sandbox.flow_to(request.host, request.port), None, SOCKS)
    else:
        sandbox.observer.flow_denied(_nowhere(request))
        await say_goodbye(sandbox.loop, client, request.answer)


async def handle_http(sandbox: SandboxState, client: Stream) -> None:
    """Serve one client of the HTTP proxy: a tunnel, or one request."""
    with sandbox.handshake():
        try:
            with sandbox.loop.timeout(sandbox.limits.first_bytes_seconds):
                head, trailing = await _http_request(client)
        except OSError:
            client.reset()
            return
    if isinstance(head, Refuse):
        await deny(sandbox, client, _nowhere(head), None, HTTP_PROXY)
    elif head.form is TargetForm.AUTHORITY:
        client.unread(trailing)
        await _go(sandbox, client, sandbox.flow_to(head.host, head.port or 0), None, HTTP_PROXY)
    else:
        flow, said = sandbox.flow_to(head.host, head.port or 80), _for_the_server(head, trailing)
        await _go(sandbox, client, flow, said, TRANSPARENT)


async def _socks_request(client: Stream) -> ConnectRequest | RefusedSocks:
    parser = Socks5Parser()
    answer = parser.feed(await _some(client))
    while not isinstance(answer, ConnectRequest | RefusedSocks):
        if isinstance(answer, Greeting):
            await client.write(NO_AUTHENTICATION)
            answer = parser.feed(b"")
        if answer is NEED_MORE:
            answer = parser.feed(await _some(client))
    client.unread(parser.trailing)
    return answer


async def _http_request(client: Stream) -> tuple[RequestHead | Refuse, bytes]:
    """Return the head of a request to a proxy, and what came behind it."""
    parser = RequestHeadParser()
    answer = parser.feed(await _some(client))
    while answer is NEED_MORE:
        answer = parser.feed(await _some(client))
    if isinstance(answer, Http2Preface):
        answer = Refuse(Fault.MALFORMED_HTTP, "the proxy does not speak HTTP/2")
    elif isinstance(answer, RequestHead) and answer.form not in (TargetForm.AUTHORITY, TargetForm.ABSOLUTE):
        answer = Refuse(Fault.BAD_HTTP_HOST, "a proxy is asked with a whole URL, or with CONNECT")
    return answer, parser.trailing


async def _some(client: Stream) -> bytes:
    data = await client.read_to_keep()
    if not data:
        raise ConnectionResetError("the client has gone")
    return data


def _for_the_server(head: RequestHead, trailing: bytes) -> HttpClient:
    raw = rewrite_for_server(head)
    answer = RequestHeadParser().feed(raw)
    if answer is NEED_MORE:  # at the very limit of what a head may take
        answer = Refuse(Fault.TOO_LARGE, "the head is too large to be passed on")
    return HttpClient(raw + trailing, answer)


async def _go(sandbox: SandboxState, client: Stream, flow: Flow, said: FirstBytes | None, front: Front) -> None:
    verdict = sandbox.decide_new(flow)
    if verdict.allowed:
        await TcpFlow(sandbox, client, verdict, front).carry(said)
    else:
        await deny(sandbox, client, verdict, said, front)


def _nowhere(refusal: Refuse) -> Verdict:
    """Return the denial of a request that does not say, in one way only, where it wants to go."""
    return unreadable(Flow(None, None), refusal)
