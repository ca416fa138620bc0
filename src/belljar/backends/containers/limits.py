"""Limits on what a container uses of the machine."""

import resource
from functools import cache
from pathlib import Path
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.engine.libpod import podman
from belljar.backends.containers.engine.rights import is_rootless, server_of
from belljar.backends.interface import MachineError
from belljar.linux import sharedmemory
from belljar.linux.coredumps import preventing_limit
from belljar.sandbox import bounds
from belljar.sandbox.spec import ResourceLimits

_MOST_FILES: Final = 65536
_MOST_PROCESSES: Final = 4096
_MOST_OF_A_USER: Final = 32768  # what Podman leaves to itself, and can pass on


def every_container() -> dict[str, Any]:
    """Return the limits that hold for each process. They are named: the engines' own may exceed this machine's."""
    files, processes = _at_most(resource.RLIMIT_NOFILE, _MOST_FILES), _at_most(resource.RLIMIT_NPROC, _MOST_OF_A_USER)
    return {"Ulimits": [_limit("nofile", files), _limit("nproc", processes), _limit("core", preventing_limit())]}


def of_sandbox(limits: ResourceLimits) -> dict[str, Any]:
    """Return the limits that hold for a sandbox as a whole. Memory is limited also where nobody asks for it."""
    memory = limits.memory_bytes or bounds.in_all(bounds.machine())
    wanted: dict[str, Any] = {"PidsLimit": _MOST_PROCESSES, "Memory": memory, "MemorySwap": memory}
    if limits.cpus is not None:
        wanted |= {"NanoCpus": round(limits.cpus * 1_000_000_000)}
    return wanted | every_container()


def shared_memory() -> dict[str, str]:
    """Return the kernel's settings that bound what is in no process and no file, where any engine can make them.

    Where not, the limit on memory is the only bound.
    """
    found = sharedmemory.settings(bounds.shared(bounds.machine())) if sharedmemory.can_be_bounded() else {}
    return {f"kernel.{name}": value for name, value in found.items()}


def leave_out_unavailable(engine: Engine, limits: ResourceLimits, configuration: dict[str, Any]) -> None:
    """Do without limits that nobody has asked for where Podman has none to give, and would refuse.

    It knows none on the number of files in memory: that on memory has to do. As a user, it has what the machine has
    delegated; of processes, the limit on those of a user is left.
    """
    if engine.kind != "podman":
        return
    wanted = configuration["HostConfig"]
    wanted["Tmpfs"] = {place: options.partition(",nr_inodes=")[0] for place, options in wanted["Tmpfs"].items()}
    if not is_rootless(engine):
        return
    available = podman_controllers(engine)
    if "pids" not in available:
        wanted.pop("PidsLimit")
    if "memory" not in available and limits.memory_bytes is None:
        wanted.pop("Memory")
        wanted.pop("MemorySwap")


def refuse_unavailable(engine: Engine, limits: ResourceLimits) -> None:
    """Refuse limits that an engine cannot enforce: Docker would only warn of it. Raises MachineError."""
    asked = {"memory": limits.memory_bytes, "cpu": limits.cpus}
    if missing := [name for name, limit in asked.items() if limit is not None and not _can_limit(engine, name)]:
        raise MachineError(
            f"{engine.kind} cannot limit {' and '.join(missing)} here; run without that limit, or see what it lacks: "
            "belljar doctor"
        )


def _can_limit(engine: Engine, controller: str) -> bool:
    if engine.kind == "podman":
        return not is_rootless(engine) or controller in podman_controllers(engine)
    return bool(engine.get("/info")[{"memory": "MemoryLimit", "cpu": "CpuCfsQuota"}[controller]])


@cache
def podman_controllers(engine: Engine) -> frozenset[str]:
    """Return what Podman can limit. In Docker's terms, it tells of the machine, and not of the user."""
    user = server_of(engine)
    delegated = Path(f"/sys/fs/cgroup/user.slice/user-{user}.slice/user@{user}.service/cgroup.controllers")
    if delegated.exists():  # Podman takes a while to tell
        return frozenset(delegated.read_text().split())
    return frozenset(podman(engine).get("/info")["host"].get("cgroupControllers") or ())


def _at_most(kind: int, most: int) -> int:
    """Return a limit that an engine without rights can set: one that is not above our own."""
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def _limit(name: str, most: int) -> dict[str, Any]:
    return {"Name": name, "Soft": most, "Hard": most}
