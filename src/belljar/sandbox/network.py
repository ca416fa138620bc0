"""What a sandbox can reach, and how that is done and noted."""

from typing import TYPE_CHECKING, NamedTuple

from belljar.gateway.settings import Settings
from belljar.policy import CompiledPolicy

if TYPE_CHECKING:  # to import them takes as long as to make a sandbox
    from pathlib import Path

    from belljar.gateway.limits import Limits
    from belljar.sandbox.ledger import Ledger


class NetworkAccess(NamedTuple):
    """A sealed sandbox's network, as its gateway is to make it."""

    policy: CompiledPolicy
    settings: Settings
    ledger: "Ledger"
    limits: "Limits | None" = None
    """What it may use of the gateway, if that is not what every sandbox may."""

    broker_state: "Path | None" = None
    """Where a broker keeps what it counts (`brokerplace`), if a service is one."""

    starts_broker_at_once: bool = False
    """Whether a broker is started now or never, since what it imports may be written to from inside later."""
