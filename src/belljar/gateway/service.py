"""A gateway as whoever has sandboxes to be served sees it, wherever it runs.

In processes of its own, `workers.supervisor.Workers` is one; `attachment.Gateways` stands before it and those that
serve single sandboxes elsewhere. `belljar run` has one sandbox, for as long as it lives,
and embeds a `gateway.Gateway` in its own loop instead (`belljar.sandbox.serving`).
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from belljar.gateway.audit.observing import Denial
from belljar.gateway.limits import Limits
from belljar.gateway.listeners import Listeners
from belljar.policy import Flow, ResolvedPolicy


class OpenFlow(NamedTuple):
    """A live flow, and what it has carried so far."""

    flow: Flow
    bytes_up: int
    bytes_down: int
    seconds: float


class ServiceUsage(NamedTuple):
    """How much a sandbox has made of a service that is a broker, and how much it may."""

    service: str
    used: Mapping[str, float]
    budget: Mapping[str, float]
    """Without what has no bound; both have the names of `policy.services.Budget`."""


class Acknowledgement(NamedTuple):
    """No other policy than this will be in force."""

    generation: int
    flows_cut: int
    in_force: bool = True
    """Whether it is by now. If not, the sandbox can reach nothing until it is."""


class ServingGateway(Protocol):
    """What can be asked of whoever serves sandboxes.

    Methods block, and any thread may call them; KeyError means that a sandbox is not served.
    """

    def change_policy(self, sandbox: str, policy: ResolvedPolicy, *, until: float | None = None) -> Acknowledgement:
        """Put a new policy in force, or close the sandbox until it is. Raises RefusedError, and has changed nothing."""

    def close(self, sandbox: str) -> None:
        """End everything of one sandbox."""

    def has(self, sandbox: str) -> bool:
        """Tell whether a sandbox is served."""

    def is_in_force(self, sandbox: str) -> bool:
        """Tell whether a sandbox is served with the policy that it is to have. If not, it can reach nothing."""

    def flows(self, sandbox: str) -> list[OpenFlow]:
        """Return the live flows of a sandbox."""

    def denials(self, sandbox: str) -> list[Denial]:
        """Return the latest denials of a sandbox, the newest first, as far as they are remembered."""

    def usage(self, sandbox: str) -> list[ServiceUsage]:
        """Return what a sandbox has made of its brokers, as far as it has used them."""

    def metrics(self) -> str:
        """Return the numbers of all sandboxes as Prometheus reads them."""


class GatewayService(ServingGateway, Protocol):
    """Serves sandboxes whose listeners it is given."""

    def open(
        self,
        sandbox: str,
        policy: ResolvedPolicy | None,
        listeners: Listeners,
        limits: Limits | None = None,
        *,
        until: float | None = None,
    ) -> None:
        """Serve a sandbox, whose listeners are ours from now on."""
