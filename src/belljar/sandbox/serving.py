"""The gateway of one sandbox, with all that has to be imported for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from belljar.gateway.audit.log import keep_flushed
from belljar.gateway.audit.observing import Observer
from belljar.gateway.gateway import Gateway
from belljar.gateway.io.loop import Loop
from belljar.gateway.limits import Limits
from belljar.gateway.listeners import Listeners
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.upstream.resolver import Resolver
from belljar.linux.processes import allow_most_descriptors
from belljar.sandbox.network import NetworkAccess

if TYPE_CHECKING:
    from belljar.gateway.upstream.brokerdoor import BrokerDoor


def serve(loop: Loop, network: NetworkAccess, listeners: Listeners) -> Gateway:
    """Have a gateway answer at a sandbox's doors."""
    allow_most_descriptors()  # the command has been forked, and keeps the limit that it was given
    observer = Observer("local", audit=network.ledger)
    broker = _broker(loop, observer, network.broker_state) if network.broker_state is not None else None
    descriptor = None if broker is None else broker.descriptor
    gateway = Gateway(loop, Resolver(loop, network.settings.resolvers), network.settings, broker=descriptor)
    if broker is not None:
        gateway.on_closed = broker.close
        if network.starts_broker_at_once:
            broker.start_now_or_never()
    if network.ledger.audit is not None:
        loop.spawn(keep_flushed(loop, network.ledger.audit))
    gateway.open(SandboxState("local", network.policy, observer, network.limits or Limits()), listeners)
    return gateway


def _broker(loop: Loop, observer: Observer, state: Path) -> "BrokerDoor":
    from belljar.gateway.upstream.brokerdoor import BrokerDoor, used_by  # noqa: PLC0415 - few have one

    def note(event: dict[str, Any]) -> None:
        if (used := used_by(event)) is not None:
            observer.service_used(used)

    return BrokerDoor(loop, state, note)
