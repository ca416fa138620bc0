"""What a sandbox reached and what it was denied, summed up by destination, for a summary at its end."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from belljar.gateway.audit.events import (
    EVENTS,
    DnsDenied,
    Event,
    FlowAllowed,
    FlowClosed,
    FlowDenied,
    ServiceUsed,
    TrafficFolded,
)
from belljar.gateway.audit.log import AuditLog

MOST_DESTINATIONS: Final = 2000
"""A sandbox could try any number; the audit log has them all."""


class UsedDestination(NamedTuple):
    """Somewhere that was reached for."""

    name: str | None
    address: str | None
    """Where no name was used."""

    port: int | None
    protocol: str | None
    """`dns` where no more than a question was asked."""

    def __str__(self) -> str:
        host = self.name or (f"[{self.address}]" if self.address and ":" in self.address else self.address) or "?"
        written = host if self.port is None else f"{host}:{self.port}"
        return f"{written}/udp" if self.protocol == "udp" else written


@dataclass(slots=True)
class Reached:
    """How much was made of a destination."""

    flows: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(slots=True)
class Denied:
    """How often, and why, a destination was denied."""

    reason: str
    sentence: str
    times: int = 0


@dataclass(slots=True)
class Failed:
    """How often a destination that is allowed could not be reached, and why at last."""

    error: str
    times: int = 0


@dataclass(slots=True)
class ServiceSums:
    """How much was made of a service that is a broker."""

    requests: int = 0
    refused: int = 0
    refused_for: dict[str, int] = field(default_factory=dict)
    """How often for each of the broker's reasons."""

    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None


@dataclass(slots=True)
class Ledger:
    """Takes every event of one sandbox, and passes it on to the audit log, if there is one."""

    audit: AuditLog | None = None
    reached: dict[UsedDestination, Reached] = field(default_factory=dict)
    denied: dict[UsedDestination, Denied] = field(default_factory=dict)
    failed: dict[UsedDestination, Failed] = field(default_factory=dict)
    used: dict[str, ServiceSums] = field(default_factory=dict)
    """By the name of the service."""

    def write(self, sandbox: str | None, event: Event) -> bool:
        """Take note of an event; False if the audit log has lost it."""
        if isinstance(event, FlowAllowed):
            self._reached(_where(event)).flows += 1
        elif isinstance(event, FlowClosed):
            self._close(_where(event), event.bytes_up, event.bytes_down)
            if event.error is not None:
                self._fail(_where(event), event.error)
        elif isinstance(event, TrafficFolded):
            self._fold(event)
        elif isinstance(event, FlowDenied):
            self._deny(_where(event), event.reason, event.sentence)
        elif isinstance(event, DnsDenied):
            self._deny(UsedDestination(event.name, None, None, "dns"), event.reason, event.sentence)
        elif isinstance(event, ServiceUsed):
            self._use(event)
        return self.audit is None or self.audit.write(sandbox, event)

    def _reached(self, where: UsedDestination) -> Reached:
        if where not in self.reached and len(self.reached) >= MOST_DESTINATIONS:
            return Reached()
        return self.reached.setdefault(where, Reached())

    def _close(self, where: UsedDestination, bytes_up: int, bytes_down: int) -> None:
        if (sums := self.reached.get(where)) is not None:  # not if it was denied when it was connected already
            sums.bytes_up += bytes_up
            sums.bytes_down += bytes_down

    def _fail(self, where: UsedDestination, error: str) -> None:
        if where in self.failed or len(self.failed) < MOST_DESTINATIONS:
            failed = self.failed.setdefault(where, Failed(error))
            failed.error, failed.times = error, failed.times + 1

    def _fold(self, event: TrafficFolded) -> None:
        """Add what a log elsewhere has summed up; one of ours is told of every event before it does."""
        host = event.destination or ""
        name, address = (None, host) if ":" in host or host.replace(".", "").isdigit() else (host, None)
        where = UsedDestination(name, address, event.port, event.protocol)
        if event.of == EVENTS[FlowAllowed]:
            self._reached(where).flows += event.lines
        elif event.of == EVENTS[FlowClosed]:
            self._close(where, event.bytes_up, event.bytes_down)

    def _use(self, event: ServiceUsed) -> None:
        sums = self.used.setdefault(event.service, ServiceSums())
        sums.requests += 1
        if event.refused is not None:
            sums.refused += 1
            sums.refused_for[event.refused] = sums.refused_for.get(event.refused, 0) + 1
        sums.input_tokens += event.input_tokens
        sums.output_tokens += event.output_tokens
        if event.dollars is not None:
            sums.dollars = (sums.dollars or 0) + event.dollars

    def _deny(self, where: UsedDestination, reason: str, sentence: str) -> None:
        if where in self.denied or len(self.denied) < MOST_DESTINATIONS:
            self.denied.setdefault(where, Denied(reason, sentence)).times += 1


def _where(event: FlowAllowed | FlowClosed | FlowDenied) -> UsedDestination:
    address = event.addresses[0] if event.name is None and event.addresses else None
    return UsedDestination(event.name, address, event.port, event.protocol)
