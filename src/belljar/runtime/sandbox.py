"""One sandbox as the server knows it."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

from belljar.runtime.deadlines import Deadline
from belljar.runtime.network import SandboxNetwork
from belljar.runtime.storage import Row
from belljar.sandbox.spec import Bind, Isolation, ResourceLimits, SandboxSpec

_INSIDE_AT_ONCE: Final = 8
_READING_AT_ONCE: Final = 2


class Status(StrEnum):
    """How a sandbox is."""

    CREATING = "creating"
    RUNNING = "running"
    PAUSED = "paused"
    CLOSED = "closed"
    """It runs, but its doors could not be opened again: nothing can be reached."""
    DEAD = "dead"
    """All its processes have ended."""
    DELETING = "deleting"


class IdempotentRequest(NamedTuple):
    """What makes the repetition of a request known: its key, and a digest of what was asked for."""

    key: str
    digest: str


@dataclass(slots=True, kw_only=True)
class Sandbox:
    """A sandbox. Whoever changes it holds its lock; who changes what it may reach, the other one.

    That nobody holds while a backend is asked, which may take as long as the agent likes: it can stop what a container
    engine starts inside.
    """

    id: str
    backend: str
    spec: SandboxSpec
    """What it was made from, without its environment and files: there may be secrets in them."""

    labels: Mapping[str, str]
    network: SandboxNetwork
    request: IdempotentRequest | None = None
    created_at: float = field(default_factory=time.time)
    status: Status = Status.CREATING
    detail: str | None = None
    ttl: float | None = None
    hard_ttl: float | None = None
    expires: Deadline | None = None
    hard_expires: Deadline | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    network_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_INSIDE_AT_ONCE))
    """Turns of those who do something inside, which may take as long as the agent likes."""

    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READING_AT_ONCE))
    """Turns of those who read policies for it."""

    def begin_ttl(self) -> None:
        """Count both times to live from now on."""
        self.expires = Deadline.after(self.ttl) if self.ttl else None
        self.hard_expires = Deadline.after(self.hard_ttl) if self.hard_ttl else None

    def to_row(self) -> Row:
        """Return what is stored of it."""
        state = {
            "backend": self.backend,
            "spec": self.spec.to_data(),
            "labels": self.labels,
            "request": self.request,
            "created_at": self.created_at,
            "status": self.status.value,
            "detail": self.detail,
            "ttl": self.ttl,
            "hard_ttl": self.hard_ttl,
            "expires_at": self.expires.at if self.expires else None,
            "hard_expires_at": self.hard_expires.at if self.hard_expires else None,
        }
        return Row(self.id, json.dumps(state), json.dumps(self.network.to_data()))

    @classmethod
    def from_row(cls, row: Row) -> "Sandbox":
        """Return the sandbox that was stored."""
        state = json.loads(row.state)
        request, expires_at, hard_at = state.pop("request"), state.pop("expires_at"), state.pop("hard_expires_at")
        asked = state.pop("asked", None)
        spec = state.pop("spec", None)
        return cls(
            id=row.id,
            network=SandboxNetwork.from_data(json.loads(row.network)),
            request=IdempotentRequest(*request) if request else None,
            expires=Deadline.remembered(expires_at, state["ttl"]) if expires_at else None,
            hard_expires=Deadline.remembered(hard_at, state["hard_ttl"]) if hard_at else None,
            spec=SandboxSpec.from_data(spec) if spec is not None else _spec_of_request(asked),
            **{**state, "status": Status(state["status"])},
        )


def _spec_of_request(asked: Mapping[str, Any]) -> SandboxSpec:
    """Return the spec of a sandbox that an earlier version stored as the request's JSON."""
    limits = asked.get("limits", {})
    return SandboxSpec(
        image=asked.get("image"),
        workdir=Path(asked["workdir"]) if asked.get("workdir") else None,
        binds=tuple(
            Bind(Path(mount["source"]), Path(mount.get("target") or mount["source"]), mount.get("writable", False))
            for mount in asked.get("mounts", ())
        ),
        read_only=asked.get("read_only", False),
        isolation=Isolation(asked.get("isolation", Isolation.SEALED)),
        limits=ResourceLimits(limits.get("cpus"), limits.get("memory_bytes")),
    )
