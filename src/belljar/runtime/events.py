"""What happens in the life of a sandbox: one type for each event. docs/api.md explains them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias


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


RuntimeEvent: TypeAlias = (
    SandboxCreated
    | SandboxAdopted
    | SandboxPaused
    | SandboxResumed
    | SandboxDied
    | SandboxDeleted
    | GrantOpened
    | GrantClosed
)

EVENT_NAMES: Final[Mapping[type[RuntimeEvent], str]] = MappingProxyType(
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
