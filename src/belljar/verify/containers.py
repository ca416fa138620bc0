"""Containers that are tried out: whose they are, and what they lack."""

from collections.abc import Mapping
from typing import Final

from belljar.backends.containers.engine.client import Engine
from belljar.backends.containers.engine.locate import find_engine
from belljar.backends.containers.engine.places import Kind
from belljar.backends.containers.engine.rights import is_rootless
from belljar.backends.containers.limits import podman_controllers
from belljar.backends.containers.toolbox import default_cache, open_toolbox
from belljar.sandbox import bounds
from belljar.verify.containertrial import ContainerTrial
from belljar.verify.trial import TrialMaker, boundless_memory

_NO_NOSUID: Final = (
    "engines do not mount images like that; setuid programs gain nothing all the same, as 48-no-new-privileges shows"
)
_OWN_IMAGE: Final = "what an image has is the sandbox's own to change, by whoever may, unless it is made read-only"
_ENGINES_OWN: Final = 1 << 28
"""What the places in memory that an engine makes by itself, such as /dev/shm, have at most, in bytes."""

_LIMITS: Final = {"RLIMIT_NOFILE": 65536, "RLIMIT_NPROC": 32768}
_PROCESSES: Final = 4096

_SAME_GROUPS: Final = (
    "root's Podman does not hide the names of control groups of version 1 when it is asked in Docker's terms"
)
_SAME_USERS: Final = (
    "for this engine, users inside are users of the machine, without any capability; for rootless Podman they are not, "
    'nor for Docker with "userns-remap"'
)


def docker(environment: Mapping[str, str]) -> TrialMaker:
    """Return what makes containers of Docker. Raises MachineError."""
    return _containers("docker", environment)


def podman(environment: Mapping[str, str]) -> TrialMaker:
    """Return what makes containers of Podman. Raises MachineError."""
    return _containers("podman", environment)


def _containers(kind: Kind, environment: Mapping[str, str]) -> TrialMaker:
    engine, cache = find_engine(kind, environment), default_cache(environment)
    open_toolbox(cache)  # once, rather than in each of the processes that make sandboxes
    return TrialMaker(
        lambda task: ContainerTrial(task, engine, cache),
        _lacking(engine),
        sockets=(str(engine.address),),
        bounds=_bounds(engine),
    )


def _bounds(engine: Engine) -> dict[str, int]:
    memory = bounds.machine()
    groups = {"memory": bounds.in_all(memory), "pids": _PROCESSES}
    groups = {name: most for name, most in groups.items() if _can_limit(engine, name)}
    places = {"bytes": memory * 2 // 5 + _ENGINES_OWN, "shared": bounds.shared(memory)}
    return {**places, **_LIMITS, **groups}


def _can_limit(engine: Engine, name: str) -> bool:
    if engine.kind == "podman":
        return not is_rootless(engine) or name in podman_controllers(engine)
    return bool(engine.get("/info")[f"{name.capitalize()}Limit"])


def _lacking(engine: Engine) -> dict[str, str]:
    own_users = is_rootless(engine) or "name=userns" in (engine.get("/info").get("SecurityOptions") or ())
    lacking = {**boundless_memory(), "59-setuid-mounts": _NO_NOSUID, "59-read-only": _OWN_IMAGE}
    if not own_users:
        lacking["48-user-namespace"] = _SAME_USERS
    if engine.kind == "podman" and not is_rootless(engine) and engine.get("/info")["CgroupVersion"] == "1":
        lacking["48-control-groups"] = _SAME_GROUPS
    return lacking
