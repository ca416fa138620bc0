"""What sealed containers need of an engine, what is missing, and what mends it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine, EngineError, EngineLostError
from belljar.backends.containers.engine.locate import find_engine
from belljar.backends.containers.engine.places import Kind, NoEngineError
from belljar.backends.containers.limits import podman_controllers
from belljar.backends.findings import MachineFinding

_LIMITS: Final = {"memory": "MemoryLimit", "cpu": "CpuCfsQuota", "pids": "PidsLimit"}
"""Controllers of control groups, and how Docker says that it can use them."""

_HOLES: Final = (
    ("CVE-2024-21626", ((1, 1, 12),)),
    ("CVE-2025-31133, CVE-2025-52565, CVE-2025-52881", ((1, 2, 8), (1, 3, 3))),
)
"""Ways out of a container that runc has had, and the versions in which each line of releases has closed them."""


def findings(
    kind: Kind, environment: Mapping[str, str], trial: Callable[[], str | None] | None = None
) -> Iterator[MachineFinding]:
    """Look at everything; `trial` makes a sandbox and returns why that did not work."""
    try:
        engine = find_engine(kind, environment)
        version, info = engine.get("/version"), engine.get("/info")
        controllers = _controllers(engine, info)
    except NoEngineError as error:
        yield MachineFinding(kind, holds=False, detail=error.culprit, remedy=error.remedy)
        return
    except (EngineError, EngineLostError) as error:
        yield MachineFinding(kind, holds=False, detail=str(error), remedy=f"sudo journalctl -u {kind} tells more")
        return
    yield MachineFinding(kind, holds=True, detail=_description(engine, info))
    looks = (_same_kernel(version), _limits(info, controllers), _user_namespace(engine, info), *_runc(version))
    yield from (replace(finding, what=f"{kind}: {finding.what}") for finding in looks)
    if trial is not None:
        failure = trial()
        yield MachineFinding(f"{kind}: a sandbox", failure is None, failure or "was made, sealed, and gone again")


def _controllers(engine: Engine, info: Mapping[str, Any]) -> set[str]:
    """Return what containers can be limited by."""
    if engine.kind == "podman":
        return set(podman_controllers(engine))
    return {controller for controller, name in _LIMITS.items() if info.get(name)}


def _description(engine: Engine, info: Mapping[str, Any]) -> str:
    rights = "rootless" if _is_rootless(info) else "with root's rights"
    groups = f"control groups {info.get('CgroupVersion') or '1'}"
    return f"{engine.kind} {info.get('ServerVersion')} at {engine.address}, {rights}, {groups}, {info.get('Driver')}"


def _same_kernel(version: Mapping[str, Any]) -> MachineFinding:
    """Look whether the engine is here: a socket can lead to a virtual machine, or through ssh to another machine."""
    ours, kernel = os.uname().release, version.get("KernelVersion")
    return MachineFinding(
        "this machine",
        holds=kernel == ours,
        detail="is the engine's" if kernel == ours else f"runs {ours}, the engine {kernel}: doors cannot be passed",
        remedy="use an engine that runs on this machine itself",
    )


def _limits(info: Mapping[str, Any], controllers: set[str]) -> MachineFinding:
    missing = sorted(_LIMITS.keys() - controllers)
    detail = f"cannot be limited in {', '.join(missing)}" if missing else "can be limited in cpu, memory and pids"
    remedy = "sudo systemctl edit user@.service: [Service] Delegate=cpu cpuset io memory pids; then log in again"
    if info.get("CgroupVersion") != "2":
        remedy = "rootless engines need control groups of version 2: boot with systemd.unified_cgroup_hierarchy=1"
    return MachineFinding("containers", not missing, detail, remedy, needed=False)


def _user_namespace(engine: Engine, info: Mapping[str, Any]) -> MachineFinding:
    is_mapped = _is_rootless(info) or "name=userns" in _security(info)
    detail = "is nobody on this machine" if is_mapped else "is root on this machine as well, without its capabilities"
    remedy = "as an ordinary user: systemctl --user start podman.socket"
    if engine.kind == "docker":
        remedy = '{"userns-remap": "default"} in /etc/docker/daemon.json, and sudo systemctl restart docker'
    return MachineFinding("root in a container", is_mapped, detail, remedy, needed=False)


def _runc(version: Mapping[str, Any]) -> Iterator[MachineFinding]:
    """Tell of an old runc. It is a note at most, since distributions mend holes and keep the number."""
    for component in version.get("Components") or ():
        number = re.search(r"(\d+)\.(\d+)\.(\d+)\S*", component.get("Version", ""))
        if component.get("Name") in ("runc", "OCI Runtime (runc)") and number is not None:
            yield _runc_finding(number[0], tuple(map(int, number.groups())))


def _runc_finding(written: str, number: tuple[int, ...]) -> MachineFinding:
    holes = ", ".join(hole for hole, mended in _HOLES if not _is_mended(number, mended))
    detail = f"is {written}; unless your distribution has mended it, it has {holes}" if holes else f"is {written}"
    remedy = "sudo apt-get install --only-upgrade runc; apt-get changelog runc tells what is mended"
    return MachineFinding("runc", not holes, detail, remedy, needed=False)


def _is_mended(number: tuple[int, ...], mended: tuple[tuple[int, ...], ...]) -> bool:
    return any(number >= first and number[:2] == first[:2] for first in mended) or number[:2] > mended[-1][:2]


def _security(info: Mapping[str, Any]) -> list[str]:
    return info.get("SecurityOptions") or []


def _is_rootless(info: Mapping[str, Any]) -> bool:
    return bool(info.get("Rootless")) or any("rootless" in option for option in _security(info))
