"""Everything that handlers call."""

from dataclasses import dataclass

from belljar.control.hub import Hub
from belljar.control.store import SqliteStore
from belljar.gateway.workers.supervisor import Workers
from belljar.runtime.commands import Commands
from belljar.runtime.context import Context
from belljar.runtime.lifecycle import Sandboxes
from belljar.runtime.policies import Networks


@dataclass(frozen=True, slots=True)
class Services:
    """The services, and the parts they share."""

    context: Context
    sandboxes: Sandboxes
    networks: Networks
    commands: Commands
    workers: Workers
    store: SqliteStore
    hub: Hub
