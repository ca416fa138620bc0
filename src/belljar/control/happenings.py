"""What the server itself tells, beside what the gateway does: one type for each event, and its fields are the line's.

The lines are those of the audit log, with the same common fields; docs/api.md explains these events.
"""

import json
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from belljar.control.store import Told
from belljar.gateway.audit.events import VERSION


class SandboxCreated(NamedTuple):
    """A sandbox is sealed and ready."""

    backend: str
    labels: dict[str, str]


class SandboxAdopted(NamedTuple):
    """A server that was started anew has found a sandbox, and serves it again."""


class SandboxPaused(NamedTuple):
    """Every process inside was stopped where it is."""

    cause: Literal["request", "ttl"]


class SandboxResumed(NamedTuple):
    """Every process inside goes on."""


class SandboxDied(NamedTuple):
    """All processes inside have ended."""


class SandboxDeleted(NamedTuple):
    """A sandbox and everything that it held is gone."""

    cause: Literal["request", "hard_ttl", "sweep"]


class GrantOpened(NamedTuple):
    """A destination is open for a time."""

    grant: str
    allow: str
    seconds: float


class GrantClosed(NamedTuple):
    """A destination that was open for a time is closed again."""

    grant: str
    allow: str
    cause: Literal["request", "time", "replaced"]


Happening: TypeAlias = (
    SandboxCreated
    | SandboxAdopted
    | SandboxPaused
    | SandboxResumed
    | SandboxDied
    | SandboxDeleted
    | GrantOpened
    | GrantClosed
)

HAPPENINGS: Final[Mapping[type[Happening], str]] = MappingProxyType(
    {
        SandboxCreated: "sandbox.created",
        SandboxAdopted: "sandbox.adopted",
        SandboxPaused: "sandbox.paused",
        SandboxResumed: "sandbox.resumed",
        SandboxDied: "sandbox.died",
        SandboxDeleted: "sandbox.deleted",
        GrantOpened: "grant.opened",
        GrantClosed: "grant.closed",
    }
)
"""The name of each."""


def told(sandbox: str, happening: Happening) -> Told:
    """Return what happened as a line."""
    now = time.time()
    stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03}Z"
    event = HAPPENINGS[type(happening)]
    common = {"v": VERSION, "time": stamp, "event": event, "sandbox": sandbox}
    return Told(sandbox, event, json.dumps(common | happening._asdict(), separators=(",", ":")))
