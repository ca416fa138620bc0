"""What a sandbox and a command can be asked for with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike, fspath
from typing import Any, TypedDict

from belljar.client.policy import NetworkPolicy


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or directory of the server's machine that is seen inside."""

    source: str
    target: str | None = None
    """At its own place by default."""

    writable: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a sandbox may use of the machine."""

    cpus: float | None = None
    memory_bytes: int | None = None


class ClaimOptions(TypedDict, total=False):
    """What a sandbox is made from. All of it can be left out: then it is empty, and can reach nothing."""

    backend: str
    image: str
    read_only: bool
    """Whether the image's files cannot be changed."""

    isolation: str
    """`sealed`, or `perimeter` for engines on which that cannot work."""

    workdir: str | PathLike[str]
    """A directory of the server's machine."""

    env: Mapping[str, str]
    mounts: Sequence[Mount]
    limits: Limits
    ttl: float
    """Seconds until it is paused."""

    hard_ttl: float
    """Seconds until it is deleted."""

    network: NetworkPolicy
    labels: Mapping[str, str]
    idempotency_key: str
    """Makes a repeated claim find the sandbox that the first one has made."""


class ExecOptions(TypedDict, total=False):
    """How a command is run."""

    env: Mapping[str, str]
    workdir: str | PathLike[str]
    """A directory inside."""

    stdin: str | bytes
    timeout: float
    """Seconds until it is killed."""


def claim_to_data(options: ClaimOptions) -> dict[str, Any]:
    """Return the body of a claim."""
    data: dict[str, Any] = {**options}
    data.pop("idempotency_key", None)
    if "workdir" in options:
        data["workdir"] = fspath(options["workdir"])
    if "mounts" in options:
        data["mounts"] = [_given(asdict(mount)) for mount in options["mounts"]]
    if "limits" in options:
        data["limits"] = _given(asdict(options["limits"]))
    if "network" in options:
        data["network"] = options["network"].to_data()
    return data


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
