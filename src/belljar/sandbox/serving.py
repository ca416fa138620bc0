"""The gateway of one sandbox, with all that has to be imported for it."""

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


def serve(loop: Loop, network: NetworkAccess, listeners: Listeners) -> Gateway:
    """Have a gateway answer at a sandbox's doors."""
    allow_most_descriptors()  # the command has been forked, and keeps the limit that it was given
    gateway = Gateway(loop, Resolver(loop, network.settings.resolvers), network.settings)
    if network.ledger.audit is not None:
        loop.spawn(keep_flushed(loop, network.ledger.audit))
    observer = Observer("local", audit=network.ledger)
    gateway.open(SandboxState("local", network.policy, observer, network.limits or Limits()), listeners)
    return gateway
