"""What the audit log tells: one type for each event, and its fields are those of the line.

This is the schema, in its version; docs/audit.md explains it, and a test holds the two together. A field that is
not known is null, never absent. There is no room here for what a request contains: no path, no query, no header,
no body.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

VERSION: Final = 1

COMMON_FIELDS: Final = ("v", "time", "event", "sandbox")
"""What every line begins with."""

Ending: TypeAlias = Literal["closed", "failed", "cut", "denied"]
Transport: TypeAlias = Literal["udp", "tcp"]
DnsResult: TypeAlias = Literal["address", "pointer", "no_data", "no_name", "forwarded", "failed"]
LossCause: TypeAlias = Literal["full", "flood", "closed"]
HoldCause: TypeAlias = Literal["slow", "stalled", "overdue", "given_up"]

Limit: TypeAlias = Literal[
    "connections",
    "handshakes",
    "buffered_bytes",
    "descriptors",
    "direct_dial",
    "udp_flows",
    "udp_waiting_bytes",
    "dns_per_second",
    "dns_connections",
    "dns_forwards",
    "names_under_wildcard",
    "virtual_names",
]


class SandboxOpened(NamedTuple):
    """The gateway began to serve a sandbox."""

    generation: int
    digest: str | None


class SandboxClosed(NamedTuple):
    """The gateway no longer serves a sandbox."""


class SandboxInterrupted(NamedTuple):
    """The worker process that served a sandbox was lost, and all of the sandbox's flows with it."""

    cause: str


class SandboxHeld(NamedTuple):
    """A sandbox can reach nothing, because the policy that it is to have is not in force yet."""

    generation: int
    cause: HoldCause


class FlowAllowed(NamedTuple):
    """A flow was allowed, and is connected."""

    protocol: str | None
    name: str | None
    addresses: tuple[str, ...]
    port: int | None
    claimed: str | None
    reason: str
    rule: str | None


class FlowDenied(NamedTuple):
    """A flow was denied: at once, when more was known about it, or by a new policy."""

    protocol: str | None
    name: str | None
    addresses: tuple[str, ...]
    port: int | None
    claimed: str | None
    reason: str
    rule: str | None
    sentence: str


class FlowClosed(NamedTuple):
    """A flow that the policy had allowed has ended."""

    protocol: str | None
    name: str | None
    addresses: tuple[str, ...]
    port: int | None
    how: Ending
    error: str | None
    bytes_up: int
    bytes_down: int
    seconds: float


class DnsAnswered(NamedTuple):
    """A question got its answer, or the answer that there is none."""

    transport: Transport
    name: str
    type: str
    result: DnsResult
    reason: str | None


class DnsDenied(NamedTuple):
    """A question was denied by the policy."""

    transport: Transport
    name: str
    type: str
    reason: str
    rule: str | None
    sentence: str


class DnsRefused(NamedTuple):
    """A message was not a question that Belljar answers, whatever the policy."""

    transport: Transport
    name: str | None
    type: str | None
    fault: str
    detail: str


class ServiceUsed(NamedTuple):
    """A request to a service that is a broker has been answered, by whomever it leads to or by the broker itself."""

    service: str
    status: int
    refused: str | None
    model: str | None
    input_tokens: int
    output_tokens: int
    dollars: float | None
    bytes_up: int
    bytes_down: int
    seconds: float


class TrafficFolded(NamedTuple):
    """Several events of one kind, about the same destination, that are not told one by one."""

    of: str
    protocol: str | None
    destination: str | None
    port: int | None
    lines: int
    bytes_up: int
    bytes_down: int


class PolicyChanged(NamedTuple):
    """A policy came into force; or none is any more, and everything is denied."""

    generation: int
    digest: str | None
    flows_cut: int


class LimitReached(NamedTuple):
    """Something was refused because of a limit."""

    limit: Limit
    times: int


class BugFound(NamedTuple):
    """A connection was reset because of a bug in Belljar; the others went on."""

    error: str


class AuditLost(NamedTuple):
    """Lines are missing here."""

    lines: int
    cause: LossCause


Event: TypeAlias = (
    SandboxOpened
    | SandboxClosed
    | SandboxInterrupted
    | SandboxHeld
    | FlowAllowed
    | FlowDenied
    | FlowClosed
    | DnsAnswered
    | DnsDenied
    | DnsRefused
    | ServiceUsed
    | TrafficFolded
    | PolicyChanged
    | LimitReached
    | BugFound
    | AuditLost
)

EVENTS: Final[Mapping[type[Event], str]] = MappingProxyType(
    {
        SandboxOpened: "sandbox.opened",
        SandboxClosed: "sandbox.closed",
        SandboxInterrupted: "sandbox.interrupted",
        SandboxHeld: "sandbox.held",
        FlowAllowed: "flow.allowed",
        FlowDenied: "flow.denied",
        FlowClosed: "flow.closed",
        DnsAnswered: "dns.answered",
        DnsDenied: "dns.denied",
        DnsRefused: "dns.refused",
        ServiceUsed: "service.used",
        TrafficFolded: "traffic.folded",
        PolicyChanged: "policy.changed",
        LimitReached: "limit.reached",
        BugFound: "bug.found",
        AuditLost: "audit.lost",
    }
)
"""The name of each event in the log."""
