"""One sandbox as the gateway sees it: its policy, names, live flows and limits, and the listeners it is served through.

Whoever makes a `SandboxState` says what it is; `Gateway.open` adds what it takes to serve it. Everything that serves
the sandbox has this one object in common.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from belljar.gateway.audit.metrics import BUFFERED, CPU_SECONDS, FLOWS_LIVE, VIRTUAL_NAMES
from belljar.gateway.audit.observing import Observer
from belljar.gateway.dns.virtual import VirtualNames
from belljar.gateway.dns.wildcards import WildcardBudget
from belljar.gateway.io.loop import Loop, Task
from belljar.gateway.io.pipes import Pipes
from belljar.gateway.limits import Limits, Usage
from belljar.gateway.listeners import Listeners
from belljar.names import Host
from belljar.policy import CompiledPolicy, Flow, Protocol, Verdict, to_address, without_policy
from belljar.turns import Owner

if TYPE_CHECKING:  # they are made for a sandbox, and know it
    from belljar.gateway.closing import NoWayOut
    from belljar.gateway.dns.service import DnsService
    from belljar.gateway.flows import LiveFlow
    from belljar.gateway.io.budget import Share
    from belljar.gateway.io.streams import Stream
    from belljar.gateway.udp.service import UdpService
    from belljar.gateway.upstream.dialing import Dialler

_REMEMBERED_VERDICTS: Final = 1024


class SandboxState(Usage):
    """The state of one sandbox in the gateway."""

    loop: Loop
    dialler: "Dialler | NoWayOut"
    pipes: Pipes
    listeners: Listeners
    dns: "DnsService"
    udp: "UdpService"

    def __init__(
        self,
        id: str,  # noqa: A002 - what it is called everywhere
        policy: CompiledPolicy | None,
        observer: Observer,
        limits: Limits | None = None,
        names: VirtualNames | None = None,
    ) -> None:
        super().__init__(limits or Limits(), observer)
        self.id = id
        self.policy = policy
        self.names = names if names is not None else VirtualNames()
        self.wildcards = WildcardBudget(self.limits.names_under_wildcard)
        self.owner = Owner()
        self.flows: set[LiveFlow] = set()
        self.handlers: dict[Task, Stream] = {}
        """The tasks that serve connections which are undecided or being rejected, in the order of acceptance."""
        self.acceptors: list[Task] = []
        """What takes connections from the listeners."""
        self._verdicts: dict[Flow, Verdict] = {}
        """What the policy has said so far: a connection asks several times, and many go to the same destination."""
        self._verdicts_by: CompiledPolicy | None = None
        observer.read_from(BUFFERED, lambda: self.buffers.held)
        observer.read_from(FLOWS_LIVE, lambda: len(self.flows))
        observer.read_from(VIRTUAL_NAMES, lambda: len(self.names))
        observer.read_from(CPU_SECONDS, lambda: self.owner.used)

    @property
    def generation(self) -> int:
        """The generation of the policy in force; 0 without one."""
        return self.policy.generation if self.policy is not None else 0

    def flow_to(self, host: Host, port: int, protocol: Protocol = Protocol.TCP) -> Flow:
        """Return the flow to what a client asks for: a virtual address means the name it was handed out for."""
        if isinstance(host, str):
            return Flow(host, port, protocol)
        name = self.names.name_of(host)
        return Flow(name, port, protocol) if name is not None else to_address(host, port, protocol)

    def decide(self, flow: Flow) -> Verdict:
        """Decide a flow by the policy of this moment."""
        if self._verdicts_by is not self.policy or len(self._verdicts) >= _REMEMBERED_VERDICTS:
            self._verdicts_by = self.policy
            self._verdicts.clear()
        verdict = self._verdicts.get(flow)
        if verdict is None:
            policy = self.policy
            verdict = self._verdicts[flow] = policy.decide(flow) if policy is not None else without_policy(flow)
        return verdict

    def decide_new(self, flow: Flow) -> Verdict:
        """Decide a new flow, and take the time that takes."""
        started = self.loop.clock()
        verdict = self.decide(flow)
        self.observer.took("decide", self.loop.clock() - started)
        return verdict

    def admits_name(self, verdict: Verdict) -> bool:
        """Tell whether an allowed name may be looked up: under a wildcard, only so many different ones may."""
        if self.policy is None or self.wildcards.admits(self.policy, verdict):
            return True
        return self.refuse("names_under_wildcard")

    def change_policy(self, policy: CompiledPolicy | None) -> Sequence[Callable[[], None]]:
        """Put a new policy in force; return what cuts the live flows that it denies, one by one.

        That has to be called before anything else is done for the sandbox. Without a policy everything is denied.
        """
        self.policy = policy
        decided = [(live, live.verdict()) for live in self.flows]
        cuts = [partial(self._cut, live, verdict) for live, verdict in decided if not verdict.allowed]
        self.observer.policy_changed(self.generation, policy.digest if policy is not None else None, len(cuts))
        return cuts

    def serve_with(self, loop: Loop, dialler: "Dialler", descriptors: "Share", listeners: Listeners) -> None:
        """Take what it takes to be served."""
        self.loop, self.dialler, self.listeners = loop, dialler, listeners
        self.descriptors = descriptors
        self.descriptors.hold(len(list(listeners)))
        self.pipes = Pipes(descriptors, self.buffers)

    def close_listeners(self) -> None:
        """Accept nothing more."""
        for task in self.acceptors:
            task.cancel()
        self.dns.close()
        self.udp.close()
        for listener in self.listeners:
            self.loop.unwatch(listener)
        self.descriptors.give_back(len(list(self.listeners)))
        self.listeners.close()

    def flow_endings(self) -> Sequence[Callable[[], None]]:
        """Return calls that end the live flows, one each, because the sandbox is closed."""
        return [partial(self._end, live) for live in self.flows]

    def _cut(self, live: "LiveFlow", verdict: Verdict) -> None:
        with self._containing():
            live.cut(verdict)

    def _end(self, live: "LiveFlow") -> None:
        with self._containing():
            live.end("cut")

    @contextmanager
    def _containing(self) -> Iterator[None]:
        """Do something to one flow; a bug that it meets must not save the others."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - see above
            self.observer.bug_found(error)
