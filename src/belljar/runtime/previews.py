"""What another policy would change: which live flows it would reset, and what of late would have ended otherwise."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Final

from belljar.policy import CompiledPolicy, Flow, Protocol, question
from belljar.runtime.context import Context, run_in_thread
from belljar.runtime.network import Prepared, SandboxNetwork
from belljar.runtime.sandbox import Sandbox
from belljar.runtime.storage import StoredEvent

_RECENT: Final = 1000
_TRIED: Final = ("flow.allowed", "flow.denied", "dns.answered", "dns.denied")


async def preview(context: Context, sandbox: Sandbox, prepared: Prepared, *, keep_grants: bool) -> dict[str, Any]:
    """Return what would change. Nothing does."""
    network = replace(sandbox.network, base=prepared.resolved)
    if not keep_grants:
        network = replace(network, grants=())
    now, then = await asyncio.gather(
        asyncio.to_thread(SandboxNetwork.compiled, sandbox.network), asyncio.to_thread(SandboxNetwork.compiled, network)
    )
    live = [open_flow.flow for open_flow in await run_in_thread(lambda: context.gateway.flows(sandbox.id))]
    recent = [_flow(event) for event in await context.store.latest(sandbox.id, _TRIED, _RECENT)]
    changes = list(_changes(now, then, dict.fromkeys((*live, *recent)), frozenset(live)))
    return {"flows_reset": sum(_is_reset(flow, now, then) for flow in live), "changes": changes}


def _is_reset(flow: Flow, now: CompiledPolicy, then: CompiledPolicy) -> bool:
    """Tell whether a live flow would end: also if the service that it leads to is not the same any more."""
    return not then.decide(flow).allowed or now.service(flow) != then.service(flow)


def _changes(
    now: CompiledPolicy, then: CompiledPolicy, flows: dict[Flow, None], live: frozenset[Flow]
) -> Iterator[dict[str, Any]]:
    for flow in flows:
        before, after = now.decide(flow), then.decide(flow)
        if before.allowed != after.allowed:
            yield {
                "destination": str(flow),
                "live": flow in live,
                "from": before.action.value,
                "to": after.action.value,
                "reason": after.reason.value,
                "rule": after.rule,
                "sentence": after.sentence,
            }


def _flow(event: StoredEvent) -> Flow:
    fields = json.loads(event.line)
    if event.event.startswith("dns."):
        return question(fields["name"])
    return Flow(
        name=fields["name"],
        port=fields["port"],
        protocol=Protocol(fields["protocol"]) if fields["protocol"] else None,
        addresses=tuple(map(ip_address, fields["addresses"])),
        claimed=fields["claimed"],
    )
