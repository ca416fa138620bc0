"""What one sandbox does, as seen from outside: told to the audit log, counted, and the latest denials kept at hand.

Everything is counted, and everything is told but for what a sandbox could use to fill a disk: beyond a generous rate,
denials and refused messages are skipped, and so are requests to brokers, at a rate of their own; and of a limit that is
hit again and again there is one line in ten seconds. Lines say how many were left out. Datagrams cost a sandbox next to
nothing; so they have no more than a half of that rate, and cannot hide what else is denied.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Protocol

from belljar.gateway.audit import metrics as of
from belljar.gateway.audit.events import (
    AuditLost,
    BugFound,
    DnsAnswered,
    DnsDenied,
    DnsRefused,
    DnsResult,
    Ending,
    Event,
    FlowAllowed,
    FlowClosed,
    FlowDenied,
    Limit,
    LimitReached,
    PolicyChanged,
    SandboxClosed,
    SandboxOpened,
    ServiceUsed,
    Transport,
)
from belljar.gateway.audit.metrics import Metric, Metrics
from belljar.gateway.io.loop import kind_and_place, log_bug
from belljar.gateway.io.tokenbucket import TokenBucket
from belljar.names import Address
from belljar.policy import CompiledPolicy, Flow, Verdict

KEPT_DENIALS: Final = 1000

_DENIALS_PER_SECOND: Final = 100
_DENIALS_AT_ONCE: Final = 1000
_REPEAT_SECONDS: Final = 10.0
_SHOWN_ADDRESSES: Final = 8
_FAILURE: Final = 400
"""From which status on an answer is none that was hoped for."""

_REMEMBERED_DESTINATIONS: Final = 256


class Denial(NamedTuple):
    """One denial, as the ring of recent ones keeps it."""

    time: float
    """Seconds since 1970."""

    protocol: str | None
    """`dns` for a question."""

    destination: str
    reason: str
    rule: str | None
    sentence: str


class AuditSink(Protocol):
    """Whoever wants to be told of events: the audit log, or somebody in front of it."""

    def write(self, sandbox: str | None, event: Event) -> bool:
        """Take an event; False if it is lost."""


class Observer:
    """Takes note of what happens in one sandbox."""

    def __init__(
        self,
        sandbox: str,
        *,
        audit: AuditSink | None = None,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sandbox = sandbox
        self._audit = audit
        self._clock = clock
        self._denials: deque[Denial] = deque(maxlen=KEPT_DENIALS)
        self._denial_lines = TokenBucket(_DENIALS_PER_SECOND, _DENIALS_AT_ONCE)
        self._datagram_lines = TokenBucket(_DENIALS_PER_SECOND / 2, _DENIALS_AT_ONCE / 2)
        self._service_lines = TokenBucket(_DENIALS_PER_SECOND, _DENIALS_AT_ONCE)
        self._skip_lines = _once_in_a_while()
        self._skipped = 0
        self._limit_lines: defaultdict[Limit, TokenBucket] = defaultdict(_once_in_a_while)
        self._limit_hits: defaultdict[Limit, int] = defaultdict(int)
        numbers = self._numbers = (metrics or Metrics()).of(sandbox)
        self._flows = numbers.counts(of.FLOWS)
        self._closed = numbers.counts(of.FLOWS_CLOSED)
        self._cut = numbers.counts(of.FLOWS_CUT)
        self._bytes = numbers.counts(of.BYTES)
        self._steps = numbers.histograms(of.STEP_SECONDS)
        self._queries = numbers.counts(of.DNS_QUERIES)
        self._dns_denied = numbers.counts(of.DNS_DENIED)
        self._limits = numbers.counts(of.LIMITS)
        self._bugs = numbers.counts(of.BUGS)
        self._lost = numbers.counts(of.AUDIT_LOST)
        self._requests = numbers.counts(of.SERVICE_REQUESTS)
        self._tokens = numbers.counts(of.SERVICE_TOKENS)
        self._dollars = numbers.counts(of.SERVICE_DOLLARS)
        self._generation = 0
        self.read_from(of.GENERATION, lambda: self._generation)

    def denials(self) -> list[Denial]:
        """Return the latest denials, the newest first."""
        return list(reversed(self._denials))

    def read_from(self, gauge: Metric, read: Callable[[], float]) -> None:
        """Say where a gauge of this sandbox is read."""
        self._numbers.gauges[gauge] = read

    # The sandbox and its policy.

    def sandbox_opened(self, policy: CompiledPolicy | None) -> None:
        """The gateway serves the sandbox from now on."""
        self._generation = policy.generation if policy else 0
        self._write(SandboxOpened(self._generation, policy.digest if policy else None))

    def sandbox_closed(self) -> None:
        """The gateway does not serve the sandbox any more."""
        for limit, times in self._limit_hits.items():
            if times:
                self._write(LimitReached(limit, times))
        self._report_skipped()
        self._write(SandboxClosed())

    def policy_changed(self, generation: int, digest: str | None, flows_cut: int) -> None:
        """A policy came into force; or none is any more, and everything is denied."""
        self._generation = generation
        self._cut[()] += flows_cut
        self._write(PolicyChanged(generation, digest, flows_cut))

    # Flows.

    def flow_allowed(self, verdict: Verdict) -> None:
        """A flow was allowed, and is connected."""
        flow = verdict.flow
        self._flows[str(flow.protocol), "allowed", verdict.reason] += 1
        self._write(FlowAllowed(*_destination(flow), flow.claimed, verdict.reason, verdict.rule))

    def flow_denied(self, verdict: Verdict) -> None:
        """A flow was denied."""
        flow, sentence = verdict.flow, verdict.sentence
        self._flows[str(flow.protocol), "denied", verdict.reason] += 1
        is_datagram = flow.protocol == "udp"
        is_told = self._may_tell_denial(is_datagram=is_datagram)
        if is_told or not is_datagram:
            self._keep(flow.protocol, verdict, sentence)
        if is_told:
            self._write(FlowDenied(*_destination(flow), flow.claimed, verdict.reason, verdict.rule, sentence))

    def flow_closed(self, flow: Flow, bytes_up: int, bytes_down: int, seconds: float, how: Ending) -> None:
        """A flow that the policy had allowed has ended."""
        self._ended(FlowClosed(*_destination(flow), how, None, bytes_up, bytes_down, round(seconds, 6)))

    def flow_failed(self, flow: Flow, bytes_up: int, bytes_down: int, seconds: float, error: str) -> None:
        """A flow that the policy had allowed has ended, because something went wrong."""
        self._ended(FlowClosed(*_destination(flow), "failed", error, bytes_up, bytes_down, round(seconds, 6)))

    def _ended(self, event: FlowClosed) -> None:
        self._closed[event.how,] += 1
        self._bytes["up",] += event.bytes_up
        self._bytes["down",] += event.bytes_down
        self._write(event)

    def took(self, step: Literal["decide", "resolve", "dial"], seconds: float) -> None:
        """A step towards a flow is done, with whatever result."""
        self._steps[step,].observe(seconds)

    # DNS.

    def dns_answered(
        self, transport: Transport, name: str, kind: str, result: DnsResult, reason: str | None = None
    ) -> None:
        """A question got its answer."""
        self._queries[transport, result] += 1
        self._write(DnsAnswered(transport, name, kind, result, reason))

    def dns_denied(self, transport: Transport, kind: str, verdict: Verdict) -> None:
        """A question was denied by the policy."""
        sentence = verdict.sentence
        self._queries[transport, "denied"] += 1
        self._dns_denied[verdict.reason,] += 1
        self._keep("dns", verdict, sentence)
        if self._may_tell_denial():
            self._write(DnsDenied(transport, str(verdict.flow), kind, verdict.reason, verdict.rule, sentence))

    def dns_refused(self, transport: Transport, name: str | None, kind: str | None, fault: str, detail: str) -> None:
        """A message was not a question that is answered here."""
        self._queries[transport, "refused"] += 1
        if self._may_tell_denial():
            self._write(DnsRefused(transport, name, kind, fault, detail))

    def dns_limited(self, transport: Transport, limit: Limit) -> None:
        """A question was refused because of a limit."""
        self._queries[transport, "limited"] += 1
        self.limit_reached(limit)

    # Services.

    def service_used(self, event: ServiceUsed) -> None:
        """A broker has answered a request, or has had it answered."""
        result = "refused" if event.refused else "failed" if event.status >= _FAILURE else "answered"
        self._requests[event.service, result] += 1
        self._tokens[event.service, "input"] += event.input_tokens
        self._tokens[event.service, "output"] += event.output_tokens
        self._dollars[event.service,] += event.dollars or 0
        if self._may_tell(self._service_lines):
            self._write(event)

    # What should not happen.

    def bug_found(self, error: BaseException) -> None:
        """A connection was reset because of a bug."""
        self._bugs[()] += 1
        if self._may_tell_denial():
            log_bug(f"a bug in the gateway, met by {self._sandbox}", error)
            self._write(BugFound(kind_and_place(error)))

    def limit_reached(self, limit: Limit) -> None:
        """Something was refused because of a limit."""
        self._limits[limit,] += 1
        self._limit_hits[limit] += 1
        if self._limit_lines[limit].admit(self._clock()):
            self._write(LimitReached(limit, self._limit_hits.pop(limit)))

    def attempts_lost(self, count: int) -> None:
        """Report how many connections the gateway has not read by the time the sandbox is closed."""
        if count:
            self._lost["closed",] += count
            self._write(AuditLost(count, "closed"))

    def _keep(self, protocol: str | None, verdict: Verdict, sentence: str) -> None:
        denial = Denial(self._clock(), protocol, str(verdict.flow), verdict.reason, verdict.rule, sentence)
        self._denials.append(denial)

    def _may_tell_denial(self, *, is_datagram: bool = False) -> bool:
        return self._may_tell(*([self._datagram_lines] if is_datagram else ()), self._denial_lines)

    def _may_tell(self, *rates: TokenBucket) -> bool:
        """Tell whether there may be another line, by all of some rates; count it if there may not."""
        now = self._clock()
        if not all(rate.admit(now) for rate in rates):
            self._skipped += 1
            self._lost["flood",] += 1
            return False
        if self._skipped and self._skip_lines.admit(now):
            self._report_skipped()
        return True

    def _report_skipped(self) -> None:
        if self._skipped:
            self._write(AuditLost(self._skipped, "flood"))
            self._skipped = 0

    def _write(self, event: Event) -> None:
        if self._audit is not None and not self._audit.write(self._sandbox, event):
            self._lost["full",] += 1


def _destination(flow: Flow) -> tuple[str | None, str | None, tuple[str, ...], int | None]:
    return flow.protocol, flow.name, _shown(flow.addresses), flow.port


@lru_cache(_REMEMBERED_DESTINATIONS)
def _shown(addresses: tuple[Address, ...]) -> tuple[str, ...]:
    return tuple(map(str, addresses[:_SHOWN_ADDRESSES]))


def _once_in_a_while() -> TokenBucket:
    return TokenBucket(1 / _REPEAT_SECONDS, 1)
