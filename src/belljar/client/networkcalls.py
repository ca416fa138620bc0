"""Everything that can be asked about the network of a sandbox."""

from collections.abc import Mapping
from typing import Any

from belljar.client import reading
from belljar.client.asking import Answer, Call, Request, nothing, path_of, segment
from belljar.client.model import Explanation, Grant, NetworkChange, NetworkPreview
from belljar.client.policy import NetworkPolicy


def get_policy(sandbox: str) -> Call[NetworkPolicy]:
    """Tell the policy."""
    request = Request(method="GET", path=path_of(sandbox, "/network"))
    return Call(request, lambda answer: NetworkPolicy.of(answer.data(), answer.headers.get("etag")))


def put_policy(sandbox: str, policy: NetworkPolicy) -> Call[NetworkChange]:
    """Set another policy in its place."""
    return Call(_put(sandbox, policy, {}), _change)


def preview(sandbox: str, policy: NetworkPolicy) -> Call[NetworkPreview]:
    """Tell what another policy would change."""
    request = _put(sandbox, policy, {"dry_run": "true"})
    return Call(request, lambda answer: reading.network_preview(answer.data()))


def amend(sandbox: str, add: Mapping[str, Any], remove: Mapping[str, Any], etag: str | None) -> Call[NetworkChange]:
    """Add entries to the policy, or take some away."""
    data = {"add": dict(add), "remove": dict(remove)}
    return Call(Request(method="PATCH", path=path_of(sandbox, "/network"), data=data, headers=_if_match(etag)), _change)


def explain(sandbox: str, destination: str) -> Call[Explanation]:
    """Tell what the policy says to a destination."""
    request = Request(method="GET", path=path_of(sandbox, "/network/explain"), query={"destination": destination})
    return Call(request, lambda answer: reading.explanation(answer.data()))


def grants(sandbox: str) -> Call[list[Grant]]:
    """List what is open for a time."""
    request = Request(method="GET", path=path_of(sandbox, "/network/grants"))
    return Call(request, lambda answer: [reading.grant(each) for each in answer.data()["grants"]])


def add_grant(sandbox: str, allow: str, seconds: float) -> Call[Grant]:
    """Open a destination for a time."""
    data = {"allow": allow, "seconds": seconds}
    request = Request(method="POST", path=path_of(sandbox, "/network/grants"), data=data)
    return Call(request, lambda answer: reading.grant(answer.data()))


def end_grant(sandbox: str, grant: str) -> Call[None]:
    """Close it before its time."""
    return Call(Request(method="DELETE", path=path_of(sandbox, f"/network/grants/{segment(grant)}")), nothing)


def _put(sandbox: str, policy: NetworkPolicy, query: Mapping[str, str]) -> Request:
    path, headers = path_of(sandbox, "/network"), _if_match(policy.etag)
    return Request(method="PUT", path=path, data=policy.to_data(), query=query, headers=headers)


def _if_match(etag: str | None) -> dict[str, str]:
    return {"if-match": etag} if etag is not None else {}


def _change(answer: Answer) -> NetworkChange:
    return reading.network_change(answer.data(), answer.headers.get("etag"))
