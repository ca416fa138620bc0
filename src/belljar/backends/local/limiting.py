"""Limits on what a sandbox uses of the machine: a control group where there is one to be had, or else what is left."""

from typing import NamedTuple

from belljar.errors import BelljarError
from belljar.linux.cgroups.limits import Group, NoControllerError
from belljar.sandbox import bounds
from belljar.sandbox.spec import ResourceLimits


class UnlimitableError(BelljarError):
    """A limit was asked for that cannot be enforced here."""


class Enforcement(NamedTuple):
    """How limits are enforced."""

    group: Group | None = None
    address_space: int | None = None
    """Bytes for each process, where the sandbox as a whole cannot be limited."""


def enforce(limits: ResourceLimits, name: str | None = None) -> Enforcement:
    """Make what enforces some limits, under a name where it outlives us. Raises UnlimitableError."""
    if limits.cpus is None and limits.memory_bytes is None:
        return Enforcement()
    try:
        return Enforcement(_group(limits, name))
    except NoControllerError as error:
        if limits.cpus is None:
            return Enforcement(address_space=limits.memory_bytes)
        raise UnlimitableError(
            f"--cpu-limit cannot be enforced: {error}\n"
            "Run as root, or in a session that systemd has delegated control groups to: "
            "systemd-run --user --scope belljar run ..."
        ) from None


def default_group(name: str | None = None) -> Group | None:
    """Make the group of a sandbox for which nobody has asked for limits, if there is one to be had."""
    try:
        return Group(cpus=None, memory_bytes=bounds.in_all(bounds.here()), name=name)
    except NoControllerError:
        return None


def _group(limits: ResourceLimits, name: str | None) -> Group:
    try:
        return Group(cpus=limits.cpus, memory_bytes=limits.memory_bytes or bounds.in_all(bounds.here()), name=name)
    except NoControllerError:
        if limits.memory_bytes is not None:
            raise
        return Group(cpus=limits.cpus, memory_bytes=None, name=name)
