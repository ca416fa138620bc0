"""How a sandbox is attached to a gateway: by listeners that are held here, or by the word of a gateway elsewhere.

Listeners go from process to process of one machine, so a gateway here can serve them. Where a sandbox is on another
machine, or where nobody else is let in, its gateway is beside it, and does there what it is told from here.
"""

from typing import Protocol, TypeAlias

from belljar.gateway.audit.metrics import merge
from belljar.gateway.audit.observing import Denial
from belljar.gateway.listeners import Listeners
from belljar.gateway.service import Acknowledgement, GatewayService, OpenFlow, ServiceUsage, ServingGateway
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.policy import ResolvedPolicy


class ServedElsewhere(Protocol):
    """The gateway of one sandbox, where its listeners are.

    It lets nothing pass before it is opened, and nothing any more once whoever has opened it is gone: nobody would
    tell it of another policy. Methods block, and any thread may call them.
    """

    def open(
        self, policy: ResolvedPolicy, settings: Settings, *, audit: int | None = None, until: float | None = None
    ) -> ServingGateway:
        """Have it serve the sandbox, and return whom to ask from now on.

        `audit` is a descriptor that is open for appending, and stays the caller's; lines are written whole. Raises
        RefusedError if the policy cannot be enforced, and WorkerLostError if nobody answers.
        """

    def close(self) -> None:
        """Leave the sandbox without doors, whether it was opened or not. May be called again."""


Attachment: TypeAlias = Listeners | ServedElsewhere
"""Whoever has one may close it, which leaves the sandbox without doors."""


class Gateways:
    """Serves sandboxes, however they are attached: all that is asked about one is asked of who serves it."""

    def __init__(self, here: GatewayService, settings: Settings = DEFAULTS, *, audit: int | None = None) -> None:
        self._here, self._settings, self._audit = here, settings, audit
        self._elsewhere: dict[str, ServingGateway] = {}

    def open(self, sandbox: str, policy: ResolvedPolicy, attachment: Attachment, *, until: float | None = None) -> None:
        """Have a sandbox served. Its attachment is ours from now on, but stays the caller's on an error."""
        if isinstance(attachment, Listeners):
            self._here.open(sandbox, policy, attachment, until=until)
        else:
            self._elsewhere[sandbox] = attachment.open(policy, self._settings, audit=self._audit, until=until)

    def change_policy(self, sandbox: str, policy: ResolvedPolicy, *, until: float | None = None) -> Acknowledgement:
        """See `ServingGateway`."""
        return self._serving(sandbox).change_policy(sandbox, policy, until=until)

    def close(self, sandbox: str) -> None:
        """See `ServingGateway`."""
        serving = self._serving(sandbox)
        self._elsewhere.pop(sandbox, None)
        serving.close(sandbox)

    def has(self, sandbox: str) -> bool:
        """See `ServingGateway`."""
        return self._serving(sandbox).has(sandbox)

    def is_in_force(self, sandbox: str) -> bool:
        """See `ServingGateway`."""
        return self._serving(sandbox).is_in_force(sandbox)

    def flows(self, sandbox: str) -> list[OpenFlow]:
        """See `ServingGateway`."""
        return self._serving(sandbox).flows(sandbox)

    def denials(self, sandbox: str) -> list[Denial]:
        """See `ServingGateway`."""
        return self._serving(sandbox).denials(sandbox)

    def usage(self, sandbox: str) -> list[ServiceUsage]:
        """See `ServingGateway`."""
        return self._serving(sandbox).usage(sandbox)

    def metrics(self) -> str:
        """See `ServingGateway`."""
        return merge(gateway.metrics() for gateway in (self._here, *self._elsewhere.values()))

    def close_elsewhere(self) -> None:
        """Leave all sandboxes without doors that are served elsewhere."""
        for sandbox in list(self._elsewhere):
            self.close(sandbox)

    def _serving(self, sandbox: str) -> ServingGateway:
        return self._elsewhere.get(sandbox, self._here)
