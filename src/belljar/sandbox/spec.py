"""What somebody wants a sandbox to be. Backends make it so, or refuse."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Bind:
    """A part of the host's files that is seen inside."""

    source: Path
    target: Path
    writable: bool


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """What the sandbox may use of the machine; None means no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A sandbox and the command that is to run in it."""

    command: tuple[str, ...]
    workdir: Path
    environment: Mapping[str, str]
    binds: tuple[Bind, ...] = ()
    allow_write: tuple[Path, ...] = ()
    """Places in the working directory that the host runs code from, and that may be written to all the same."""

    keep: tuple[Path, ...] = ()
    """Files of the user's own that stay as they are, even where the agent may write."""

    debugger: bool = False
    """Whether programs inside may trace each other."""

    limits: ResourceLimits = field(default_factory=ResourceLimits)
