"""Requests about what a sandbox may reach."""

import asyncio
from typing import Any

from starlette.responses import Response

from belljar.control.http.requests import Call
from belljar.control.http.responses import data_answer, empty_answer
from belljar.policy import Problem, explain
from belljar.policy.explain import UnreadableDestinationError
from belljar.runtime.network import Grant, Prepared, SandboxNetwork
from belljar.runtime.policies import PolicyChange, check_match, etag
from belljar.runtime.previews import preview
from belljar.runtime.problems import FieldProblem, ProblemError, refusing


async def get(call: Call) -> Response:
    """Tell the policy as it was set."""
    network = call.sandbox.network
    return data_answer(network.base.document, headers={"etag": etag(network)})


async def put(call: Call) -> Response:
    """Set another policy."""
    sandbox, networks = call.living_sandbox, call.services.networks
    async with sandbox.reading:
        prepared = await networks.prepare(call.reading)
    if call.query.get("dry_run"):
        return await _preview(call, prepared, keep_grants=False)
    return _changed(await networks.replace(sandbox, prepared, call.request.headers.get("if-match")))


async def patch(call: Call) -> Response:
    """Add entries, or take some away."""
    sandbox, networks = call.living_sandbox, call.services.networks
    if call.query.get("dry_run"):
        return await _preview(call, await networks.amended(sandbox, call.body), keep_grants=True)
    return _changed(await networks.amend(sandbox, call.body, call.request.headers.get("if-match")))


async def explain_destination(call: Call) -> Response:
    """Tell what the policy in force says to a destination."""
    compiled = await asyncio.to_thread(SandboxNetwork.compiled, call.sandbox.network)
    try:
        explained = explain(compiled, call.query["destination"])
    except UnreadableDestinationError as error:
        raise refusing("invalid_request", [FieldProblem("destination", str(error))]) from None
    verdict = explained.verdict
    return data_answer(
        {
            "destination": explained.destination,
            "action": verdict.action.value,
            "reason": verdict.reason.value,
            "rule": verdict.rule,
            "sentence": verdict.sentence,
        }
    )


async def list_grants(call: Call) -> Response:
    """List what is open for a time."""
    return data_answer({"grants": [_grant(grant) for grant in call.sandbox.network.grants]})


async def add_grant(call: Call) -> Response:
    """Open a destination for a time."""
    grant, change = await call.services.networks.grant(call.served_sandbox, call.body["allow"], call.body["seconds"])
    return data_answer(_grant(grant) | {"generation": change.network.generation}, 201)


async def end_grant(call: Call) -> Response:
    """Close it before its time."""
    name = call.request.path_params["grant"]
    if await call.services.networks.end_grants(call.living_sandbox, lambda grant: grant.id == name, "request") is None:
        raise ProblemError("grant_not_found", f'there is no grant "{name}"; it may have ended by itself')
    return empty_answer()


async def _preview(call: Call, prepared: Prepared, *, keep_grants: bool) -> Response:
    sandbox = call.served_sandbox
    check_match(sandbox, call.request.headers.get("if-match"))
    found = await preview(call.services.context, sandbox, prepared, keep_grants=keep_grants)
    told = {
        "generation": sandbox.network.generation,
        "warnings": _warnings(prepared.warnings),
        "policy": prepared.resolved.document,
    }
    return data_answer(told | found)


def _changed(change: PolicyChange) -> Response:
    told = {
        "generation": change.network.generation,
        "in_force": change.in_force,
        "flows_reset": change.flows_reset,
        "warnings": _warnings(change.warnings),
        "policy": change.network.base.document,
    }
    return data_answer(told, headers={"etag": etag(change.network)})


def _warnings(problems: tuple[Problem, ...]) -> list[dict[str, Any]]:
    return [{"field": problem.where or None, "detail": problem.message} for problem in problems]


def _grant(grant: Grant) -> dict[str, Any]:
    return {"id": grant.id, "allow": grant.allow, "seconds": grant.seconds, "ends_at": grant.ends.at}
