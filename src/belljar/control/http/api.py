"""Every operation of the API."""

from typing import Final

from belljar.backends.interface import FILE_LIMIT
from belljar.control.http import exechandlers, networkhandlers, sandboxhandlers, watchhandlers
from belljar.control.http.operations import BINARY, PREFIX, DescribedAnswer, DescribedBody, Operation
from belljar.control.http.responses import EVENT_STREAM
from belljar.control.http.schemas import (
    AMEND,
    COMPONENTS,
    CREATE,
    EXEC,
    FILE,
    GRANT,
    REFRESH,
    answer,
    flag,
    items,
    named,
    number,
    text,
)
from belljar.gateway.audit.metrics import CONTENT_TYPE as METRICS
from belljar.runtime.sandbox import Status

_ALL: Final = f"{PREFIX}/sandboxes"
_ONE: Final = f"{_ALL}/{{id}}"
_NETWORK: Final = f"{_ONE}/network"
_FILES: Final = f"{_ONE}/files"

_UNREADY: Final = ("sandbox_not_found", "sandbox_not_ready", "sandbox_gone")
_STORED: Final = ("storage_unavailable", "storage_full")
_ENDED: Final = (*_STORED, "not_written_down")
_BACKEND: Final = ("machine_unable", "backend_lost")
_CHANGED: Final = (
    "invalid_policy",
    "control_port",
    "unenforceable_policy",
    "policy_changed",
    "gateway_lost",
    "gateway_silent",
    *_UNREADY,
    *_ENDED,
)

_LIMIT: Final = number("How many at most.", 1, 1000, whole=True)
_SANDBOX: Final = DescribedAnswer("The sandbox.", named("Sandbox"))
_EVENTS: Final = DescribedAnswer("Events as they happen, each with its number.", {"type": "string"}, EVENT_STREAM)
_DRY_RUN: Final = {"dry_run": flag("Change nothing, and tell what would change.")}
_WHICH_EVENTS: Final = {
    "after": number("The number of the last event that is known.", 0, 2**62, whole=True),
    "follow": flag("Whether to go on with what is yet to happen; true by default."),
}
_LAST: Final = {"Last-Event-ID": "The number of the last event that was seen; goes on after it."}
_IF_MATCH: Final = {"If-Match": "The ETag of the policy that is to be changed."}
_DONE: Final = {204: DescribedAnswer("It is done.")}
_SET: Final = {
    200: DescribedAnswer(
        "The policy is set, or with `dry_run` what would change.",
        {"anyOf": [named("Change"), named("Preview")]},
        headers={"ETag": "The tag of the policy."},
    )
}
_PATH: Final = {"path": text("A path inside; relative to the working directory.", minLength=1, maxLength=4096)}

OPERATIONS: Final = (
    Operation(
        method="POST",
        path=_ALL,
        handle=sandboxhandlers.create,
        name="createSandbox",
        summary="Make a sandbox, which is sealed and ready when the answer comes.",
        body=DescribedBody(CREATE, required=False),
        headers={"Idempotency-Key": "Makes a repeated request find the sandbox that the first one has made."},
        answers={
            201: DescribedAnswer(
                "The sandbox.",
                named("Sandbox"),
                headers={"Location": "Its path.", "Idempotent-Replayed": "Whether it was there already."},
            )
        },
        problems=(
            "invalid_policy",
            "control_port",
            "state_exposed",
            "unmakeable",
            "idempotency_key_reused",
            "unenforceable_policy",
            "gateway_lost",
            "sandbox_not_found",
            *_BACKEND,
            *_STORED,
        ),
    ),
    Operation(
        method="GET",
        path=_ALL,
        handle=sandboxhandlers.list_all,
        name="listSandboxes",
        summary="List sandboxes, the oldest first.",
        query={
            "status": text("How they are.", enum=[status.value for status in Status]),
            "label": items(text("`name=value`", maxLength=512), "All that they have."),
            "limit": _LIMIT,
            "cursor": text("`next` of the page before.", minLength=1, maxLength=256),
        },
        answers={200: DescribedAnswer("A page of them.", named("Sandboxes"))},
    ),
    Operation(
        method="GET",
        path=_ONE,
        handle=sandboxhandlers.get,
        name="getSandbox",
        summary="Tell of a sandbox.",
        answers={200: _SANDBOX},
        problems=("sandbox_not_found",),
    ),
    Operation(
        method="DELETE",
        path=_ONE,
        handle=sandboxhandlers.delete,
        name="deleteSandbox",
        summary="End a sandbox, with everything it held.",
        answers=_DONE,
        problems=("sandbox_not_found", "gateway_lost", *_BACKEND, *_ENDED),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/refresh",
        handle=sandboxhandlers.refresh,
        name="refreshSandbox",
        summary="Count its times to live from now on.",
        body=DescribedBody(REFRESH, required=False),
        answers={200: _SANDBOX},
        problems=(*_UNREADY, *_STORED),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/pause",
        handle=sandboxhandlers.pause,
        name="pauseSandbox",
        summary="Stop every process inside where it is.",
        answers={200: _SANDBOX},
        problems=(*_UNREADY, *_BACKEND, *_STORED),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/resume",
        handle=sandboxhandlers.resume,
        name="resumeSandbox",
        summary="Let every process inside go on; the time to live begins anew.",
        answers={200: _SANDBOX},
        problems=(*_UNREADY, *_BACKEND, *_STORED),
    ),
    Operation(
        method="POST",
        path=f"{_ONE}/exec",
        handle=exechandlers.execute,
        name="exec",
        summary="Run a command. It ends with the request.",
        body=DescribedBody(EXEC),
        answers={
            200: DescribedAnswer(
                "How it ended, and its output.",
                named("ExecResult"),
                stream="`stdout` and `stderr` events with `data` as they come, and `exit` or `problem` at the end.",
            )
        },
        problems=("unmakeable", "sandbox_paused", *_UNREADY, *_BACKEND),
    ),
    Operation(
        method="PUT",
        path=_FILES,
        handle=sandboxhandlers.put_file,
        name="putFile",
        summary="Write a file inside, with the rights of the commands there.",
        body=DescribedBody(FILE, BINARY, most=FILE_LIMIT),
        query={**_PATH, "mode": text("write its rights as in 644", pattern="^[0-7]{3}$")},
        required_query=("path",),
        answers=_DONE,
        problems=("unusable_path", "sandbox_paused", *_UNREADY, *_BACKEND),
    ),
    Operation(
        method="GET",
        path=_FILES,
        handle=sandboxhandlers.get_file,
        name="getFile",
        summary="Read a file inside, with the rights of the commands there.",
        query=_PATH,
        required_query=("path",),
        answers={200: DescribedAnswer("What is in it.", FILE, BINARY)},
        problems=("unusable_path", "sandbox_paused", *_UNREADY, *_BACKEND),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/layers",
        handle=sandboxhandlers.layers,
        name="getLayers",
        summary="Tell which layers hold a sandbox, from what is tried in it now.",
        answers={200: DescribedAnswer("The layers.", named("Layers"))},
        problems=("sandbox_paused", *_UNREADY, *_BACKEND),
    ),
    Operation(
        method="GET",
        path=_NETWORK,
        handle=networkhandlers.get,
        name="getNetwork",
        summary="Tell the network policy as it was set.",
        answers={200: DescribedAnswer("The policy.", named("Policy"), headers={"ETag": "The tag of the policy."})},
        problems=("sandbox_not_found",),
    ),
    Operation(
        method="PUT",
        path=_NETWORK,
        handle=networkhandlers.put,
        name="putNetwork",
        summary="Set another policy in its place, and end all grants. It is in force when the answer comes.",
        body=DescribedBody(named("Policy"), is_policy=True),
        query=_DRY_RUN,
        headers=_IF_MATCH,
        answers=_SET,
        problems=_CHANGED,
    ),
    Operation(
        method="PATCH",
        path=_NETWORK,
        handle=networkhandlers.patch,
        name="patchNetwork",
        summary="Add entries to the policy, or take some away.",
        body=DescribedBody(AMEND),
        query=_DRY_RUN,
        headers=_IF_MATCH,
        answers=_SET,
        problems=_CHANGED,
    ),
    Operation(
        method="GET",
        path=f"{_NETWORK}/explain",
        handle=networkhandlers.explain_destination,
        name="explainDestination",
        summary="Tell what the policy in force says to a destination. Names are not resolved.",
        query={"destination": text("host, host:port, address:port, [v6]:port or a URL", minLength=1, maxLength=2048)},
        required_query=("destination",),
        answers={200: DescribedAnswer("The decision.", named("Explanation"))},
        problems=("sandbox_not_found",),
    ),
    Operation(
        method="GET",
        path=f"{_NETWORK}/grants",
        handle=networkhandlers.list_grants,
        name="listGrants",
        summary="List what is open for a time.",
        answers={200: DescribedAnswer("The grants.", answer({"grants": items(named("Grant"), "")}))},
        problems=("sandbox_not_found",),
    ),
    Operation(
        method="POST",
        path=f"{_NETWORK}/grants",
        handle=networkhandlers.add_grant,
        name="addGrant",
        summary="Open a destination for a time; it closes by itself, and its flows end.",
        body=DescribedBody(GRANT),
        answers={
            201: DescribedAnswer(
                "The grant.",
                answer({**COMPONENTS["Grant"]["properties"], "generation": {"type": "integer"}}),
            )
        },
        problems=("grant_without_effect", *_CHANGED),
    ),
    Operation(
        method="DELETE",
        path=f"{_NETWORK}/grants/{{grant}}",
        handle=networkhandlers.end_grant,
        name="endGrant",
        summary="Close what is open for a time, before its time.",
        answers=_DONE,
        problems=("grant_not_found", "gateway_lost", "not_written_down", *_UNREADY),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/denials",
        handle=watchhandlers.denials,
        name="listDenials",
        summary="List what was denied lately, the newest first.",
        query={"limit": _LIMIT},
        answers={200: DescribedAnswer("The denials.", answer({"denials": items(named("Event"), "")}))},
        problems=("sandbox_not_found", *_STORED),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/flows",
        handle=watchhandlers.flows,
        name="listFlows",
        summary="List what is open now, with its bytes.",
        answers={200: DescribedAnswer("The flows.", answer({"flows": items(named("Flow"), "")}))},
        problems=("gateway_lost", "gateway_silent", *_UNREADY),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/usage",
        handle=watchhandlers.usage,
        name="listUsage",
        summary="List what was made of services that are brokers, and their budgets.",
        answers={200: DescribedAnswer("By service.", answer({"services": items(named("ServiceUsage"), "")}))},
        problems=("gateway_lost", *_UNREADY),
    ),
    Operation(
        method="GET",
        path=f"{_ONE}/events",
        handle=watchhandlers.events,
        name="followSandbox",
        summary="Follow what happens in a sandbox, until it is deleted.",
        query=_WHICH_EVENTS,
        headers=_LAST,
        answers={200: _EVENTS},
        problems=("sandbox_not_found",),
    ),
    Operation(
        method="GET",
        path=f"{PREFIX}/events",
        handle=watchhandlers.all_events,
        name="followAll",
        summary="Follow what happens in all sandboxes.",
        query=_WHICH_EVENTS,
        headers=_LAST,
        answers={200: _EVENTS},
    ),
    Operation(
        method="GET",
        path="/healthz",
        handle=watchhandlers.health,
        name="health",
        summary="Tell whether all is well. Needs no token.",
        answers={
            200: DescribedAnswer("All is well.", named("Health")),
            503: DescribedAnswer("Something is not.", named("Health")),
        },
    ),
    Operation(
        method="GET",
        path="/metrics",
        handle=watchhandlers.metrics,
        name="metrics",
        summary="Tell the numbers, as Prometheus reads them.",
        answers={200: DescribedAnswer("The numbers.", {"type": "string"}, METRICS)},
        problems=("gateway_lost",),
    ),
)
