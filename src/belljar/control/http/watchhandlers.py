"""Requests of those who want to know what happens."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response

from belljar import __version__
from belljar.control.http.requests import Call
from belljar.control.http.responses import KEEP_ALIVE, data_answer, server_sent, stream_answer
from belljar.gateway.audit.metrics import CONTENT_TYPE as METRICS
from belljar.runtime.context import run_in_thread
from belljar.runtime.events import EVENT_NAMES, SandboxDeleted
from belljar.runtime.problems import FieldProblem, refusing
from belljar.runtime.storage import StorageError, StoredEvent

_DENIALS: Final = ("flow.denied", "dns.denied")
_LATEST: Final = 100


async def denials(call: Call) -> Response:
    """List the latest denials, the newest first."""
    sandbox = call.sandbox
    found = await call.services.store.latest(sandbox.id, _DENIALS, call.query.get("limit", _LATEST))
    return data_answer({"denials": [_numbered(event) for event in found]})


async def flows(call: Call) -> Response:
    """List what is open now."""
    sandbox = call.served_sandbox
    found = await run_in_thread(lambda: call.services.context.gateway.flows(sandbox.id))
    return data_answer(
        {
            "flows": [
                {
                    "protocol": live.flow.protocol,
                    "name": live.flow.name,
                    "addresses": [str(address) for address in live.flow.addresses],
                    "port": live.flow.port,
                    "bytes_up": live.bytes_up,
                    "bytes_down": live.bytes_down,
                    "seconds": round(live.seconds, 3),
                }
                for live in found
            ]
        }
    )


async def usage(call: Call) -> Response:
    """List what was made of brokers."""
    sandbox = call.served_sandbox
    found = await run_in_thread(lambda: call.services.context.gateway.usage(sandbox.id))
    return data_answer({"services": [each._asdict() for each in found]})


async def all_events(call: Call) -> Response:
    """Follow everything that happens."""
    return stream_answer(_follow(call, None))


async def events(call: Call) -> Response:
    """Follow what happens in one sandbox, until it is deleted."""
    return stream_answer(_follow(call, call.sandbox.id))


async def metrics(call: Call) -> Response:
    """Tell the numbers."""
    text = await run_in_thread(call.services.context.gateway.metrics)
    return Response(text, headers={"content-type": METRICS})


async def health(call: Call) -> Response:
    """Tell whether everything that the server stands on is there."""
    services, problems = call.services, []
    try:
        await services.store.check()
    except StorageError:
        problems.append("the database cannot be written")
    if None in services.workers.pids():
        problems.append("a worker of the gateway is being replaced")
    status = "degraded" if problems else "ok"
    return data_answer({"status": status, "version": __version__, "problems": problems}, 503 if problems else 200)


def _follow(call: Call, sandbox: str | None) -> AsyncIterator[bytes]:
    header = call.request.headers.get("last-event-id")
    if header is not None and not (header.isascii() and header.isdecimal() and len(header) < 19):
        raise refusing("invalid_request", [FieldProblem("Last-Event-ID", "is no number of an event; leave it out")])
    last = call.services.hub.last
    after = int(header) if header is not None else call.query.get("after", last)
    return _encoded(call, min(after, last), sandbox)


async def _encoded(call: Call, after: int, sandbox: str | None) -> AsyncIterator[bytes]:
    yield b"id: %d\n\n" % after  # at once, so that whoever is cut off before the first event misses nothing either
    async for batch in call.services.hub.follow(after, sandbox, wait=call.query.get("follow", True)):
        yield b"".join(map(_server_sent, batch)) or KEEP_ALIVE
        if sandbox is not None and any(event.event == EVENT_NAMES[SandboxDeleted] for event in batch):
            return


def _server_sent(event: StoredEvent) -> bytes:
    return server_sent(event.line, event=event.event, number=event.id)


def _numbered(event: StoredEvent) -> dict[str, Any]:
    return {"id": event.id, **json.loads(event.line)}
