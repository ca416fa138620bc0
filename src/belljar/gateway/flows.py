"""A flow from the first "yes" to its end, over TCP or UDP: among the live ones of its sandbox, and on record.

Theory of operation
-------------------
`TcpFlow` and `UdpFlow` move bytes and datagrams; what they have in common is here. A flow is decided again, in one
place (`decide_again`), whenever more is known about it and whenever time has passed: by its addresses before one is
dialled, when its connection is there (`Dialler` does both), and by what the client claims. In between, the sandbox
decides its live flows again for each new policy, and cuts those that it denies. A decision depends on the policy and on
what is known, and on nothing else; so where both are the same, the verdict is, and is not asked for again.

A flow ends once, however many reasons there are: it is live no more, everything is released, and it is on record.
"""

from typing import NamedTuple

from belljar.gateway.audit.events import Ending
from belljar.gateway.sandbox import SandboxState
from belljar.policy import Action, Flow, Reason, Verdict
from belljar.policy.services import Service, ServiceKind


class DeniedError(Exception):
    """The policy does not allow the flow, now that more is known about it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict


class Carried(NamedTuple):
    """How many bytes a flow has carried so far, from the sandbox and to it."""

    up: int = 0
    down: int = 0


class LiveFlow:
    """A flow that was allowed, until it has ended."""

    __slots__ = (
        "_decided_by",
        "_is_told",
        "_verdict",
        "ended",
        "failure",
        "flow",
        "is_connected",
        "sandbox",
        "service",
        "started",
    )

    def __init__(self, sandbox: SandboxState, verdict: Verdict) -> None:
        self.sandbox = sandbox
        self.flow = verdict.flow
        """What is known of it by now; its `protocol` included."""
        self.started = sandbox.loop.clock()
        self.is_connected = False
        """Whether there is a socket that leads to its destination; or was, when it was denied at the last moment."""
        self.ended = False
        self.failure: str | None = None
        """Why the flow has failed, if it has."""
        self.service: Service | None = None
        """What it leads to, if that is an entry of the policy's table of services."""
        self._verdict, self._decided_by = verdict, sandbox.policy
        self._is_told = False
        sandbox.flows.add(self)
        if self.flow.name is not None:
            sandbox.names.hold(self.flow.name)

    def carried(self) -> Carried:
        """Return how many bytes have passed."""
        raise NotImplementedError

    @property
    def is_to_network(self) -> bool:
        """Whether it leads to addresses: services of the host and brokers have none."""
        return self.service is None or self.service.kind is ServiceKind.ADDRESS

    def find_service(self) -> None:
        """Find out what the flow leads to by the policy of now, which has allowed it. Raises DeniedError."""
        self.decide_again(self.flow)
        policy = self.sandbox.policy
        self.service = policy.service(self.flow) if policy is not None else None

    def verdict(self) -> Verdict:
        """Return what the policy of now says of the flow, as far as it is known."""
        return self._verdict if self.sandbox.policy is self._decided_by else self._decide(self.flow)

    def check(self, flow: Flow) -> Verdict:
        """Make sure that the policy of now allows the flow with what is known about it. Raises DeniedError."""
        verdict = self._decide(flow)
        if not verdict.allowed:
            raise DeniedError(verdict)
        return verdict

    def _decide(self, flow: Flow) -> Verdict:
        """Decide by the policy of now; a service that it leads to has to be the same as before."""
        verdict, policy = self.sandbox.decide(flow), self.sandbox.policy
        if self.service is None or not verdict.allowed or (policy and policy.service(flow) == self.service):
            return verdict
        culprit = "the policy has changed where it leads"
        return Verdict(Action.DENY, Reason.SERVICE_NOT_ALLOWED, verdict.rule, flow, culprit)

    def decide_again(self, flow: Flow) -> None:
        """Go on with what is known about the flow by now, if the policy of now allows it. Raises DeniedError."""
        policy = self.sandbox.policy
        if flow is not self.flow or policy is not self._decided_by:
            self._verdict = self.check(flow)
            self.flow, self._decided_by = flow, policy

    def tell_allowed(self) -> None:
        """Have it on record that the flow is allowed and connected, once."""
        if self._is_told:
            return
        verdict = self.verdict()
        if verdict.allowed:
            self._is_told = True
            self.sandbox.observer.flow_allowed(verdict)

    def tell_denied(self, verdict: Verdict) -> None:
        """Have it on record that the flow is denied."""
        self.sandbox.observer.flow_denied(verdict)

    def cut(self, verdict: Verdict) -> None:
        """End the flow because a new policy denies it."""
        try:
            self.tell_denied(verdict)
        finally:
            self.end("cut")

    def end(self, how: Ending) -> None:
        """Release everything, and have it on record how the flow ended, once."""
        if self.ended:
            return
        self.ended = True
        sandbox, flow = self.sandbox, self.flow
        sandbox.flows.discard(self)
        if flow.name is not None:
            sandbox.names.release(flow.name)
        self._release(how)
        seconds = sandbox.loop.clock() - self.started
        if self.failure is None:
            sandbox.observer.flow_closed(flow, *self.carried(), seconds, how)
        else:
            sandbox.observer.flow_failed(flow, *self.carried(), seconds, self.failure)

    def _release(self, how: Ending) -> None:
        """Let go of all that the flow holds."""
        raise NotImplementedError
