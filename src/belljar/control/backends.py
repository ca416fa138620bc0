"""The backends that a server has."""

import os
from collections.abc import Mapping
from pathlib import Path

from belljar.backends.interface import Backend


def make_backends(state: Path) -> Mapping[str, Backend]:
    """Make every backend there is, by its name; each keeps what is its own below the state directory.

    Raises MachineError. That there is no container engine is no error before somebody wants a container.
    """
    # Backends are imported where they are used.
    from belljar.backends.containers.late import LateBackend  # noqa: PLC0415
    from belljar.backends.local.backend import LocalBackend  # noqa: PLC0415

    return {
        "local": LocalBackend(state / "local"),
        "docker": LateBackend("docker", state / "docker", os.environ),
        "podman": LateBackend("podman", state / "podman", os.environ),
    }
