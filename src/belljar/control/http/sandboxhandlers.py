"""Requests about sandboxes and their files."""

import asyncio
import hashlib
import json
from dataclasses import asdict
from typing import Any, Final

from starlette.responses import Response

from belljar.backends.interface import Backend, Inspectable
from belljar.control.http.operations import BINARY
from belljar.control.http.requests import Call
from belljar.control.http.responses import data_answer, empty_answer
from belljar.control.http.specs import sandbox_to_data, spec_from
from belljar.policy.language.reading import Reading
from belljar.runtime.lifecycle import Order, check_times
from belljar.runtime.problems import FieldProblem, refusing
from belljar.runtime.sandbox import IdempotentRequest, Sandbox
from belljar.sandbox.layers import Layer, unknown_layers

_PAGE: Final = 100
_KEY_LENGTH: Final = 255


async def create(call: Call) -> Response:
    """Make a sandbox."""
    body, context = call.body, call.services.context
    backend = body.get("backend", "local")
    if backend not in context.backends:
        known = " or ".join(context.backends)
        raise refusing("invalid_request", [FieldProblem("backend", f'"{backend}" is not there; use {known}')])
    ttl, hard_ttl = body.get("ttl") or None, body.get("hard_ttl") or None
    check_times(ttl, hard_ttl)
    spec = await asyncio.to_thread(spec_from, body, context.state)
    reading = Reading(body.get("network", {"mode": "block-all"}))
    prepared = await call.services.networks.prepare(reading, spec, "network")
    order = Order(
        backend=backend,
        spec=spec,
        labels=body.get("labels", {}),
        ttl=ttl,
        hard_ttl=hard_ttl,
        prepared=prepared,
        request=_request(call),
    )
    sandbox, is_new = await call.services.sandboxes.create(order)
    headers = {"location": f"/api/v1/sandboxes/{sandbox.id}"} | ({} if is_new else {"idempotent-replayed": "true"})
    return data_answer(sandbox_to_data(context, sandbox), 201, headers)


async def list_all(call: Call) -> Response:
    """List sandboxes."""
    found = [sandbox for sandbox in call.services.context.sandboxes.values() if _fits(sandbox, call.query)]
    cursor = call.query.get("cursor")
    if cursor is not None:
        found = [sandbox for sandbox in found if _cursor(sandbox) > cursor]
    found.sort(key=_cursor)
    page = found[: call.query.get("limit", _PAGE)]
    following = _cursor(page[-1]) if len(page) < len(found) else None
    return data_answer(
        {"sandboxes": [sandbox_to_data(call.services.context, sandbox) for sandbox in page], "next": following}
    )


async def get(call: Call) -> Response:
    """Tell of one."""
    return data_answer(sandbox_to_data(call.services.context, call.sandbox))


async def delete(call: Call) -> Response:
    """End one."""
    await call.services.sandboxes.delete(call.sandbox, "request")
    return empty_answer()


async def pause(call: Call) -> Response:
    """Stop one."""
    sandbox = call.living_sandbox
    await call.services.sandboxes.pause(sandbox, "request")
    return data_answer(sandbox_to_data(call.services.context, sandbox))


async def resume(call: Call) -> Response:
    """Let one go on."""
    sandbox = call.served_sandbox
    await call.services.sandboxes.resume(sandbox)
    return data_answer(sandbox_to_data(call.services.context, sandbox))


async def refresh(call: Call) -> Response:
    """Give one more time."""
    sandbox = call.served_sandbox
    await call.services.sandboxes.refresh(sandbox, call.body.get("ttl"), call.body.get("hard_ttl"))
    return data_answer(sandbox_to_data(call.services.context, sandbox))


async def put_file(call: Call) -> Response:
    """Write a file inside."""
    sandbox, path, mode = call.served_sandbox, call.query["path"], int(call.query.get("mode", "644"), 8)
    await call.services.context.inside(sandbox, lambda backend: backend.put_file(sandbox.id, path, call.content, mode))
    return empty_answer()


async def get_file(call: Call) -> Response:
    """Read a file inside."""
    sandbox, path = call.served_sandbox, call.query["path"]
    content = await call.services.context.inside(sandbox, lambda backend: backend.get_file(sandbox.id, path))
    return Response(content, media_type=BINARY)


async def layers(call: Call) -> Response:
    """Tell what holds one."""
    sandbox = call.served_sandbox
    found = await call.services.context.inside(sandbox, lambda backend: _look(backend, sandbox))
    return data_answer({"layers": [asdict(layer) for layer in found]})


def _look(backend: Backend, sandbox: Sandbox) -> tuple[Layer, ...]:
    if isinstance(backend, Inspectable):
        return backend.look(sandbox.id)
    return unknown_layers(f"the backend {sandbox.backend} cannot look into its sandboxes")


def _request(call: Call) -> IdempotentRequest | None:
    key = call.request.headers.get("idempotency-key")
    if key is None:
        return None
    if not key or len(key) > _KEY_LENGTH:
        raise refusing(
            "invalid_request", [FieldProblem("Idempotency-Key", "is empty or too long; send up to 255 characters")]
        )
    digest = hashlib.sha256(json.dumps(call.body, sort_keys=True).encode()).hexdigest()
    return IdempotentRequest(key, digest)


def _fits(sandbox: Sandbox, query: Any) -> bool:
    if "status" in query and sandbox.status != query["status"]:
        return False
    wanted = (label.partition("=") for label in query.get("label", ()))
    return all(sandbox.labels.get(name) == value for name, _, value in wanted)


def _cursor(sandbox: Sandbox) -> str:
    """Return what sandboxes are sorted by: when they were made, and then their names."""
    return f"{sandbox.created_at:017.6f}-{sandbox.id}"
