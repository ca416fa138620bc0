"""What a server answers with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from belljar.client.policy import NetworkPolicy

DENIALS: Final = ("flow.denied", "dns.denied")


@dataclass(frozen=True, slots=True)
class SandboxState:
    """A sandbox as it was when the server answered."""

    id: str
    status: str
    detail: str | None
    backend: str
    image: str | None
    workdir: str | None
    labels: Mapping[str, str]
    created_at: datetime
    expires_at: datetime | None
    hard_expires_at: datetime | None
    mode: str
    generation: int
    grants: int
    """How many destinations are open for a time."""

    in_force: bool = True
    """Whether the gateway decides by its policy. If not, it can reach nothing."""


@dataclass(frozen=True, slots=True)
class Output:
    """Something that a command has written."""

    stream: Literal["stdout", "stderr"]
    data: bytes

    @property
    def text(self) -> str:
        """The same as text. A character that was cut in two is not put together again."""
        return self.data.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command has ended, and what it wrote: 1 MiB of each stream, the rest is missing if it is `truncated`."""

    exit_code: int
    """128+n if signal n ended it, 127 if there is no such program."""

    timed_out: bool
    seconds: float
    truncated: bool = False
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    out_of_memory: bool = False
    """Whether something in the sandbox was killed meanwhile because there was no memory left."""

    @property
    def stdout(self) -> str:
        """Its output as text."""
        return self.stdout_bytes.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """Its complaints as text."""
        return self.stderr_bytes.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the layers that hold a sandbox."""

    name: str
    active: bool | None
    """None if that could not be found out."""

    evidence: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class PolicyWarning:
    """Something in a policy that is valid, but probably not meant."""

    field: str | None
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}" if self.field else self.detail


@dataclass(frozen=True, slots=True)
class NetworkChange:
    """A policy was set, and no other will be in force."""

    generation: int
    flows_reset: int
    """How many live flows it has ended."""

    warnings: tuple[PolicyWarning, ...]
    policy: NetworkPolicy
    in_force: bool = True
    """Whether it is by now. If not, the sandbox can reach nothing until it is."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A live flow or a recent destination that another policy would decide otherwise."""

    destination: str
    live: bool
    before: str
    after: str
    reason: str
    rule: str | None
    sentence: str


@dataclass(frozen=True, slots=True)
class NetworkPreview:
    """What another policy would change. Nothing has."""

    generation: int
    flows_reset: int
    warnings: tuple[PolicyWarning, ...]
    policy: NetworkPolicy
    flips: tuple[Flip, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """A destination that is open for a time."""

    id: str
    allow: str
    seconds: float
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the policy in force says to a destination."""

    destination: str
    action: str
    reason: str
    rule: str | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Flow:
    """Something that is open now."""

    protocol: str | None
    name: str | None
    addresses: tuple[str, ...]
    port: int | None
    bytes_up: int
    bytes_down: int
    seconds: float

    @property
    def destination(self) -> str:
        """Where it leads."""
        return written(self.name or next(iter(self.addresses), "?"), self.port, self.protocol)


@dataclass(frozen=True, slots=True)
class ServiceUsage:
    """What a sandbox has made of a service that is a broker, and how much it may."""

    service: str
    used: Mapping[str, float]
    """Requests, tokens, dollars and bytes, by the names that they have in a budget."""

    budget: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: a line of the audit log, or of the server's own."""

    id: int
    event: str
    time: datetime
    sandbox: str | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else the line says (docs/audit.md, docs/api.md)."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Something that was denied."""

    id: int
    time: datetime
    sandbox: str | None
    protocol: str
    """`tcp`, `udp`, or `dns` for a question."""

    name: str | None
    addresses: tuple[str, ...]
    port: int | None
    reason: str
    rule: str | None
    sentence: str

    @property
    def destination(self) -> str:
        """What was wanted."""
        return written(self.name or next(iter(self.addresses), "?"), self.port, self.protocol)

    @classmethod
    def of(cls, event: Event) -> "Denial":
        """Return the denial that an event is, one of DENIALS."""
        told = event.fields
        return cls(
            id=event.id,
            time=event.time,
            sandbox=event.sandbox,
            protocol=told.get("protocol") or ("dns" if event.event == "dns.denied" else "tcp"),
            name=told["name"],
            addresses=tuple(told.get("addresses", ())),
            port=told.get("port"),
            reason=told["reason"],
            rule=told["rule"],
            sentence=told["sentence"],
        )


def written(host: str, port: int | None, protocol: str | None) -> str:
    """Return a destination as policies write it."""
    if port is None:
        return host
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"{place}/udp" if protocol == "udp" else place
