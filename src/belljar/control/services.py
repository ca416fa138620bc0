"""Everything that handlers call."""

from dataclasses import dataclass

from belljar.control.commands import Commands
from belljar.control.networks import Networks
from belljar.control.plane import Plane
from belljar.control.sandboxes import Sandboxes


@dataclass(frozen=True, slots=True)
class Services:
    """The services, and the parts they share."""

    plane: Plane
    sandboxes: Sandboxes
    networks: Networks
    commands: Commands
