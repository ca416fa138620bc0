"""The backends that a server has."""

import os
from collections.abc import Mapping
from pathlib import Path

from belljar.backends import registry
from belljar.backends.interface import Backend


def make_backends(state: Path) -> Mapping[str, Backend]:
    """Make every backend there is, by its name; each keeps what is its own below the state directory.

    Raises MachineError.
    """
    return {name: registry.find(name).open(state / name, os.environ) for name in registry.names()}
