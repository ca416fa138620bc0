"""Containers that are tried out: whose they are, and what they lack."""

from collections.abc import Mapping
from typing import Final

from belljar.backends.containers.endpoints import find_engine
from belljar.backends.containers.engine import Engine
from belljar.backends.containers.places import Kind
from belljar.backends.containers.rights import is_rootless
from belljar.backends.containers.toolbox import default_cache, open_toolbox
from belljar.verify.containertrial import ContainerTrial
from belljar.verify.trial import Maker

_NO_NOSUID: Final = (
    "engines do not mount images like that; setuid programs gain nothing all the same, as 48-no-new-privileges shows"
)
_SAME_USERS: Final = (
    "for this engine, users inside are users of the machine, without any capability; for rootless Podman they are not, "
    'nor for Docker with "userns-remap"'
)


def docker(environment: Mapping[str, str]) -> Maker:
    """Return what makes containers of Docker. Raises MachineError."""
    return _containers("docker", environment)


def podman(environment: Mapping[str, str]) -> Maker:
    """Return what makes containers of Podman. Raises MachineError."""
    return _containers("podman", environment)


def _containers(kind: Kind, environment: Mapping[str, str]) -> Maker:
    engine, cache = find_engine(kind, environment), default_cache(environment)
    open_toolbox(cache)  # once, rather than in each of the processes that make sandboxes
    return Maker(lambda task: ContainerTrial(task, engine, cache), _lacking(engine), sockets=(str(engine.address),))


def _lacking(engine: Engine) -> dict[str, str]:
    own_users = is_rootless(engine) or "name=userns" in (engine.get("/info").get("SecurityOptions") or ())
    return {"59-setuid-mounts": _NO_NOSUID} | ({} if own_users else {"48-user-namespace": _SAME_USERS})
