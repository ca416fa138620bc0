"""Answers, read: plain data of the server's to what `model` has. What is new in a newer server's is left out."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from belljar.client.model import (
    Event,
    ExecResult,
    Explanation,
    Flip,
    Flow,
    Grant,
    Layer,
    NetworkChange,
    NetworkPreview,
    PolicyWarning,
    SandboxState,
    ServiceUsage,
)
from belljar.client.policy import NetworkPolicy

T = TypeVar("T")
Data = Mapping[str, Any]


def sandbox_state(data: Data) -> SandboxState:
    """Read a sandbox."""
    moments = {name: _moment(data[name]) for name in ("created_at", "expires_at", "hard_expires_at")}
    network = {name: data["network"][name] for name in ("mode", "generation", "grants")}
    in_force = data["network"].get("in_force", True)  # which older servers do not tell
    return _read(SandboxState, {**data, **moments, **network, "in_force": in_force})


def exec_result(data: Data) -> ExecResult:
    """Read what became of a command; its output is base64."""
    streams = {f"{name}_bytes": base64.b64decode(data[name]) for name in ("stdout", "stderr")}
    return _read(ExecResult, {**data, **streams})


def exec_end(data: Data) -> ExecResult:
    """Read what became of a command whose output has come already."""
    return _read(ExecResult, data)


def layer(data: Data) -> Layer:
    """Read a layer."""
    return _read(Layer, data)


def network_change(data: Data, etag: str | None) -> NetworkChange:
    """Read that a policy was set."""
    return _read(NetworkChange, {**data, **_policy_parts(data, etag)})


def network_preview(data: Data) -> NetworkPreview:
    """Read what would change."""
    flips = (_read(Flip, {**each, "before": each["from"], "after": each["to"]}) for each in data["changes"])
    return _read(NetworkPreview, {**data, **_policy_parts(data, None), "flips": tuple(flips)})


def grant(data: Data) -> Grant:
    """Read a grant."""
    return _read(Grant, {**data, "ends_at": _moment(data["ends_at"])})


def explanation(data: Data) -> Explanation:
    """Read a decision."""
    return _read(Explanation, data)


def flow(data: Data) -> Flow:
    """Read a live flow."""
    return _read(Flow, {**data, "addresses": tuple(data["addresses"])})


def usage(data: Data) -> ServiceUsage:
    """Read what was made of a service."""
    return _read(ServiceUsage, data)


def event(data: Data, number: int) -> Event:
    """Read an event."""
    common = ("v", "id", "event", "time", "sandbox")
    rest = {name: value for name, value in data.items() if name not in common}
    return Event(number, data["event"], datetime.fromisoformat(data["time"]), data["sandbox"], rest)


def _policy_parts(data: Data, etag: str | None) -> dict[str, Any]:
    warnings: Iterable[PolicyWarning] = (_read(PolicyWarning, each) for each in data["warnings"])
    return {"warnings": tuple(warnings), "policy": NetworkPolicy.of(data["policy"], etag)}


def _read(kind: type[T], data: Data) -> T:
    return kind(**{each.name: data[each.name] for each in fields(kind) if each.name in data})  # type: ignore[arg-type]  # T is a dataclass


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
