"""The models' APIs, as pages of the universe's web: answers are streamed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.agents import messages, responses
from tests.agents.messages import Event
from tests.agents.model import Model
from tests.universe.services import Call
from tests.universe.web import Request

_DIALECTS: dict[str, Callable[[Model, dict[str, Any]], Iterator[Event]]] = {
    "POST /v1/messages": messages.events,
    "POST /v1/responses": responses.events,
}


_REFUSED = b'{"type": "error", "error": {"type": "of_the_stand_in", "message": "the stand-in says no"}}'


def page(model: Model) -> Callable[[Call, Request], Awaitable[None]]:
    """Return the page on which a model answers."""

    async def answer(call: Call, request: Request) -> None:
        dialect = _DIALECTS.get(f"{request.method} {request.target.partition('?')[0]}")
        if dialect is None:
            # To codex, which would rather use a WebSocket, this status means that there are none.
            await call.send(b"HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
            return
        model.keys.add(request.headers.get("x-api-key") or request.headers["authorization"].removeprefix("Bearer "))
        if model.refusals:
            head = f"HTTP/1.1 {model.refusals.pop(0)}\r\nContent-Type: application/json\r\n"
            await call.send(f"{head}Content-Length: {len(_REFUSED)}\r\n\r\n".encode() + _REFUSED)
            return
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for kind, content in dialect(model, json.loads(request.body)):
            await asyncio.sleep(model.pause)
            await _send_chunk(call, f"event: {kind}\ndata: {json.dumps({'type': kind, **content})}\n\n".encode())
        await _send_chunk(call, b"")

    return answer


async def _send_chunk(call: Call, data: bytes) -> None:
    await call.send(b"%x\r\n%b\r\n" % (len(data), data))
