"""How a denial looks to the program that is denied: in the protocol it speaks, and never as a silent drop."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from belljar.gateway.loop import Loop
from belljar.gateway.streams import Stream
from belljar.policy import Flow, Verdict

TLS_ACCESS_DENIED: Final = bytes([21, 3, 3, 0, 2, 2, 49])  # an alert record: fatal, access_denied
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 1 << 20


def http_response(verdict: Verdict, generation: int) -> bytes:
    """Return 403 with a problem description (RFC 9457) that a person, a program or a model can act on."""
    problem = {
        "title": "Denied by the sandbox's network policy",
        "detail": verdict.sentence,
        "reason": verdict.reason.value,
        "rule": verdict.rule,
        "generation": generation,
        "advice": "The policy decides this; do not retry.",
    }
    return _problem(403, "Forbidden", problem)


def unreachable_response(flow: Flow, error: BaseException) -> bytes:
    """Return 502 for a destination that is allowed but could not be reached."""
    detail = f"{flow}: {describe(error)}"
    return _problem(502, "Bad Gateway", {"title": "The destination could not be reached", "detail": detail})


def describe(error: BaseException) -> str:
    """Return what went wrong on the way to a destination, in words."""
    return (isinstance(error, OSError) and error.strerror) or str(error) or "no answer in time"


async def say_goodbye(loop: Loop, client: Stream, message: bytes) -> None:
    """Send a last message so that it arrives: closing with unread bytes would reset the connection before."""
    with suppress(OSError, TimeoutError), loop.timeout(_LINGER_SECONDS):
        await client.write(message)
        client.end()
        unread = _LINGER_BYTES
        while unread > 0 and (data := await client.read()):
            unread -= len(data)
    client.close()


def _problem(status: int, phrase: str, problem: Mapping[str, object]) -> bytes:
    body = json.dumps({"type": "about:blank", "status": status, **problem}).encode() + b"\n"
    head = (
        f"HTTP/1.1 {status} {phrase}\r\n"
        "Content-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Connection: close\r\n"
        "\r\n"
    )
    return head.encode() + body
