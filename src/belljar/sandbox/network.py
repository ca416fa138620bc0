"""What a sandbox can reach, and how that is done and noted."""

from typing import NamedTuple

from belljar.gateway.settings import Settings
from belljar.policy import CompiledPolicy
from belljar.sandbox.ledger import Ledger


class Network(NamedTuple):
    """A sealed sandbox's network, as its gateway is to make it."""

    policy: CompiledPolicy
    settings: Settings
    ledger: Ledger
