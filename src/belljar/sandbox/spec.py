"""What somebody wants a sandbox to be, and the commands in it. Backends make it so, or refuse."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple

SCRATCH: Final = Path("/workspace")
"""Where a sandbox works that has no directory of the host, unless something else is asked for."""


class Isolation(StrEnum):
    """What is between a sandbox and the network."""

    SEALED = "sealed"
    """It has no interface but loopback, and doors that the gateway holds."""

    PERIMETER = "perimeter"
    """It has a network of its own, and the host's packet filter leaves it no way but to the gateway."""

    NONE = "none"
    """Nothing: it has the network that its backend gives to everybody, and no doors."""


class Bind(NamedTuple):
    """A part of the host's files that is seen inside."""

    source: Path
    target: Path
    writable: bool


class ResourceLimits(NamedTuple):
    """What the sandbox may use of the machine; None means no limit."""

    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSpec:
    """A sandbox."""

    image: str | None = None
    """None for the host's own system, read-only."""

    workdir: Path | None = None
    """A directory of the host to work in, writable, at its own place. None for an empty one that vanishes with the
    sandbox."""

    scratch: Path = SCRATCH
    """Where that empty one is seen. An image that names a directory to work in has that instead, unless this names
    another place than the default."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of every command, beside the few that each backend sets (PATH, HOME, TMPDIR, BELLJAR)."""

    binds: tuple[Bind, ...] = ()
    allow_write: tuple[Path, ...] = ()
    """Places in the working directory that the host runs code from, and that may be written to all the same."""

    keep: tuple[Path, ...] = ()
    """Files of the user's own that stay as they are, even where the agent may write."""

    files: Mapping[Path, bytes] = field(default_factory=dict)
    """Small read-only files that exist inside only."""

    debugger: bool = False
    """Whether programs inside may trace each other."""

    read_only: bool = False
    """Whether an image's files cannot be changed. What is in the working directory and in /tmp can."""

    isolation: Isolation = Isolation.SEALED
    limits: ResourceLimits = field(default_factory=ResourceLimits)

    @property
    def writable(self) -> tuple[Path, ...]:
        """The host's files that can be changed from inside."""
        workdir = (self.workdir,) if self.workdir is not None else ()
        return (*workdir, *(bind.source for bind in self.binds if bind.writable))

    def to_data(self) -> dict[str, Any]:
        """Return plain data, without the environment and the files: there may be secrets in them."""
        return {
            "image": self.image,
            "workdir": str(self.workdir) if self.workdir is not None else None,
            "scratch": str(self.scratch),
            "binds": [[str(bind.source), str(bind.target), bind.writable] for bind in self.binds],
            "allow_write": [*map(str, self.allow_write)],
            "keep": [*map(str, self.keep)],
            "debugger": self.debugger,
            "read_only": self.read_only,
            "isolation": self.isolation.value,
            "limits": self.limits._asdict(),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "SandboxSpec":
        """Return the description that became plain data."""
        return cls(
            image=data["image"],
            workdir=Path(data["workdir"]) if data["workdir"] is not None else None,
            scratch=Path(data.get("scratch", SCRATCH)),  # not in what earlier versions have kept
            binds=tuple(Bind(Path(source), Path(target), writable) for source, target, writable in data["binds"]),
            allow_write=tuple(map(Path, data["allow_write"])),
            keep=tuple(map(Path, data["keep"])),
            debugger=data["debugger"],
            read_only=data["read_only"],
            isolation=Isolation(data["isolation"]),
            limits=ResourceLimits(**data["limits"]),
        )


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run in a sandbox."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the sandbox's, and stronger."""

    workdir: Path | None = None
    """A directory inside; None for the sandbox's own."""
