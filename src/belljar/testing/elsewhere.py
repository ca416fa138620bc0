"""The backend in memory, with sandboxes that have a gateway of their own, as one on another machine would have.

It is a process beside each of them that holds its doors. Nobody else is given these: what it is to do it is told.
"""

from belljar.gateway.attachment import Attachment
from belljar.gateway.listeners import Listeners
from belljar.gateway.service import ServingGateway
from belljar.gateway.settings import Settings
from belljar.gateway.workers.supervisor import Workers
from belljar.policy import ResolvedPolicy
from belljar.testing.memory import MemoryBackend, MemoryWorld


class ElsewhereBackend(MemoryBackend):
    """A `Backend` whose sandboxes are served elsewhere. Their gateways end with it, as with who has opened them."""

    def __init__(self, world: MemoryWorld) -> None:
        super().__init__(world)
        self._gateways: dict[str, GatewayBeside] = {}

    def attach(self, sandbox: str, doors: Listeners) -> Attachment:
        """Have a gateway beside the sandbox hold its doors."""
        self._forget(sandbox)
        gateway = self._gateways[sandbox] = GatewayBeside(sandbox, doors)
        return gateway

    def destroy(self, sandbox: str) -> None:
        """See `Backend`."""
        super().destroy(sandbox)
        self._forget(sandbox)

    def close(self) -> None:
        """See `Backend`."""
        for sandbox in list(self._gateways):
            self._forget(sandbox)

    def _forget(self, sandbox: str) -> None:
        if (gateway := self._gateways.pop(sandbox, None)) is not None:
            gateway.close()


class GatewayBeside:
    """A `ServedElsewhere`."""

    def __init__(self, sandbox: str, doors: Listeners) -> None:
        self._sandbox, self._doors = sandbox, doors
        self._process: Workers | None = None

    def open(
        self, policy: ResolvedPolicy, settings: Settings, *, audit: int | None = None, until: float | None = None
    ) -> ServingGateway:
        """See `ServedElsewhere`."""
        self._process = Workers(1, settings, audit=audit)
        self._process.open(self._sandbox, policy, self._doors, until=until)
        return self._process

    def close(self) -> None:
        """See `ServedElsewhere`."""
        if self._process is not None:
            self._process.shut_down()
        self._doors.close()
