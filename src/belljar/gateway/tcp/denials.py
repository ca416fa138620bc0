"""How a client is turned away: in the protocol that it speaks, which it may have to show first, and never silently.

A client is turned away because the policy denies what it wants, or because that could not be reached. Clients that know
of no gateway are told in the protocol that they speak with the server; those of an explicit proxy, in the proxy's.
"""

import json
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream, describe
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.tcp.firstbytes import FirstBytes, HttpClient, OtherClient, TlsClient, read_first_bytes
from belljar.policy import Flow, Verdict
from belljar.wire.socks5 import Reply, reply

NOTHING_SAID: Final = OtherClient(b"", ended=False)
"""The words of a client that has not said anything by which its protocol could be told."""

_TLS_ACCESS_DENIED: Final = bytes([21, 3, 3, 0, 2, 2, 49])  # an alert record: fatal, access_denied
_LAST_WORDS_SECONDS: Final = 1.0
"""How long a client may take to show in which protocol it would like to be turned away."""

_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 1 << 20


class Unreachable(NamedTuple):
    """A destination that is allowed, and could not be reached or was lost."""

    flow: Flow
    error: OSError


Cause: TypeAlias = Verdict | Unreachable
"""Why a client is turned away."""


class Front:
    """How clients are told what became of their connection: here, those who know of no gateway."""

    connected = b""
    """What a client is told before the bytes of the server."""

    def refusal(self, cause: Cause, generation: int, said: FirstBytes) -> bytes:
        """Return what a client is told that is turned away; nothing where that can only be a reset."""
        if isinstance(said, HttpClient):
            return _http_problem(cause, generation)
        return _TLS_ACCESS_DENIED if isinstance(said, TlsClient) and isinstance(cause, Verdict) else b""


class _SocksFront(Front):
    connected = reply(Reply.SUCCEEDED)

    def refusal(self, cause: Cause, generation: int, said: FirstBytes) -> bytes:  # noqa: ARG002
        if isinstance(cause, Verdict):
            return reply(Reply.NOT_ALLOWED)
        refused = isinstance(cause.error, ConnectionRefusedError)
        return reply(Reply.CONNECTION_REFUSED if refused else Reply.HOST_UNREACHABLE)


class _HttpProxyFront(Front):
    connected = b"HTTP/1.1 200 Connection established\r\n\r\n"

    def refusal(self, cause: Cause, generation: int, said: FirstBytes) -> bytes:  # noqa: ARG002
        return _http_problem(cause, generation)


TRANSPARENT: Final = Front()
SOCKS: Final = _SocksFront()
HTTP_PROXY: Final = _HttpProxyFront()


async def deny(
    sandbox: SandboxState, client: Stream, verdict: Verdict, said: FirstBytes | None = None, front: Front = TRANSPARENT
) -> None:
    """Deny a connection, and say so in the protocol that the client speaks."""
    sandbox.observer.flow_denied(verdict)
    await turn_away(sandbox, client, verdict, said, front)


async def turn_away(sandbox: SandboxState, client: Stream, cause: Cause, said: FirstBytes | None, front: Front) -> None:
    """Tell a client why it gets no connection, and close its own; `said` is None if it was not listened to yet."""
    if said is None:
        said = NOTHING_SAID
        if front is TRANSPARENT:
            said = await first_bytes_within(sandbox.loop, client, _LAST_WORDS_SECONDS)
    message = front.refusal(cause, sandbox.generation, said)
    if message:
        await say_goodbye(sandbox.loop, client, message)
    else:
        client.reset()


async def first_bytes_within(loop: Loop, client: Stream, seconds: float) -> FirstBytes:
    """Read what the client says first; one that takes too long, or has gone, says nothing that tells anything."""
    try:
        with loop.timeout(seconds):
            return await read_first_bytes(client)
    except OSError:
        return NOTHING_SAID


async def say_goodbye(loop: Loop, client: Stream, message: bytes) -> None:
    """Send a last message so that it arrives: closing with unread bytes would reset the connection before."""
    with suppress(OSError, TimeoutError), loop.timeout(_LINGER_SECONDS):
        await client.write(message)
        client.end()
        unread = _LINGER_BYTES
        while unread > 0 and (data := await client.read()):
            unread -= len(data)
    client.close()


def _http_problem(cause: Cause, generation: int) -> bytes:
    """Return a response with a problem description (RFC 9457) that a person, a program or a model can act on."""
    status, phrase = (403, "Forbidden") if isinstance(cause, Verdict) else (502, "Bad Gateway")
    problem = {"type": "about:blank", "status": status, **_problem(cause, generation)}
    body = json.dumps(problem).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\n"
        "Content-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n"
        "\r\n"
    )
    return head.encode() + body


def _problem(cause: Cause, generation: int) -> dict[str, object]:
    if isinstance(cause, Unreachable):
        detail = f"{cause.flow}: {describe(cause.error)}"
        return {"title": "The destination could not be reached", "detail": detail}
    return {
        "title": "Denied by the sandbox's network policy",
        "detail": cause.sentence,
        "reason": cause.reason.value,
        "rule": cause.rule,
        "generation": generation,
        "advice": "The policy decides this; do not retry.",
    }
