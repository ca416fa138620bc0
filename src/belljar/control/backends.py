"""The backends that a server has."""

from collections.abc import Mapping
from pathlib import Path

from belljar.backends.interface import Backend


def make_backends(state: Path) -> Mapping[str, Backend]:
    """Make every backend there is, by its name; each keeps what is its own below the state directory.

    Raises MachineError.
    """
    from belljar.backends.local.backend import LocalBackend  # noqa: PLC0415 - backends are imported where they are used

    return {"local": LocalBackend(state / "local")}
