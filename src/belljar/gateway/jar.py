"""One sandbox as the gateway sees it: its policy, its names, its live flows, its limits, and what it has tried."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from belljar.gateway.metrics import FLOWS_LIVE, VIRTUAL_NAMES
from belljar.gateway.observing import Observer
from belljar.gateway.virtual import VirtualNames
from belljar.gateway.wildcards import WildcardBudget
from belljar.policy import CompiledPolicy, Flow, Verdict, decide


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use of the gateway."""

    connections: int = 4096
    handshakes: int = 512
    """Connections whose destination is not settled yet."""

    first_bytes_seconds: float = 5.0
    """How long a client may take to say whom it wants, where that has to be known."""

    dial_seconds: float = 15.0
    dns_per_second: int = 500
    names_under_wildcard: int = 1000
    """How many different names may be asked for under one wildcard: names can carry data."""


class LiveFlow:
    """A flow that was allowed and is still open."""

    __slots__ = ("cut", "end", "flow")

    def __init__(self, flow: Flow, cut: Callable[[Verdict], None], end: Callable[[], None]) -> None:
        self.flow = flow
        self.cut = cut
        self.end = end


@dataclass(slots=True)
class Jar:
    """The state of one sandbox in the gateway."""

    id: str
    policy: CompiledPolicy | None
    observer: Observer
    limits: Limits = field(default_factory=Limits)
    names: VirtualNames = field(default_factory=VirtualNames)
    flows: set[LiveFlow] = field(default_factory=set)
    handshakes: int = 0
    wildcards: WildcardBudget = field(init=False)

    def __post_init__(self) -> None:
        self.wildcards = WildcardBudget(self.limits.names_under_wildcard)
        self.observer.read_from(FLOWS_LIVE, lambda: len(self.flows))
        self.observer.read_from(VIRTUAL_NAMES, lambda: len(self.names))

    @property
    def generation(self) -> int:
        """The generation of the policy in force; 0 without one."""
        return self.policy.generation if self.policy is not None else 0

    @contextmanager
    def handshake(self) -> Iterator[None]:
        """Count a connection whose destination is not settled yet."""
        self.handshakes += 1
        try:
            yield
        finally:
            self.handshakes -= 1

    def decide(self, flow: Flow) -> Verdict:
        """Decide a flow by the policy of this moment."""
        return decide(self.policy, flow)

    def admits_name(self, verdict: Verdict) -> bool:
        """Tell whether an allowed name may be looked up: under a wildcard, only so many different ones may."""
        if self.policy is None or self.wildcards.admits(self.policy, verdict):
            return True
        self.observer.limit_reached("names_under_wildcard")
        return False

    def change_policy(self, policy: CompiledPolicy) -> int:
        """Put a new policy in force; return how many live flows were cut because it denies them."""
        self.policy = policy
        cut = 0
        for live in list(self.flows):
            verdict = decide(policy, live.flow)
            if not verdict.allowed:
                live.cut(verdict)
                cut += 1
        self.observer.policy_changed(policy.generation, policy.digest, cut)
        return cut

    def end_all(self) -> None:
        """End every live flow, because the sandbox is closed."""
        for live in list(self.flows):
            live.end()
