"""Runs of this machine's users, of which a killed one leaves its container behind.

A container is labelled with the life of the process that runs it. Whoever comes later takes away what belongs to a life
that is over, and nothing else: not what belongs to a process that it cannot see, in another PID namespace. An image can
have that label, too, from a sandbox that it was made of; so the container's name has to say the same.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from os import close, getpid, pidfd_open
from pathlib import Path
from typing import Any, Final

from belljar.backends.containers.engine.client import Engine, EngineError, EngineLostError
from belljar.backends.containers.exec.state import kill_container
from belljar.backends.containers.inventory import OWNER
from belljar.backends.containers.perimeter.enclosure import Perimeter
from belljar.errors import BelljarError
from belljar.linux.lives import Life, has_ended

LIFE: Final = "dev.belljar.life"
"""The label that says which process a container is for."""

_FILE: Final = "life.json"
_SECONDS_TO_REMOVE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has begun."""

    owner: str
    state: Path
    labels: Mapping[str, str]


@contextmanager
def begin(place: Path) -> Iterator[Run]:
    """Have a directory for as long as a run lasts."""
    life = Life.of(getpid())
    written = json.dumps([*life, _namespace("self")])
    owner = _owner(life)
    state = place / owner
    state.mkdir(parents=True, mode=0o700)
    try:
        (state / _FILE).write_text(written)
        yield Run(owner, state, {LIFE: written})
    finally:
        shutil.rmtree(state, ignore_errors=True)


def sweep(engine: Engine, place: Path) -> int:
    """Take away what is left of runs that were killed; return how many containers that were."""
    found = engine.get("/containers/json", all=True, filters={"label": [LIFE]})
    dead = [container["Id"] for container in found if _is_ours(container) and _is_over(container["Labels"][LIFE])]
    left = dead
    for _ in range(2):  # Podman wants a helper to be gone before that which it has helped
        left = [container for container in left if not _is_removed(engine, container)]
    _sweep_networks(engine)
    for file in place.glob(f"*/{_FILE}"):
        with suppress(OSError):
            if _is_over(file.read_text()):
                shutil.rmtree(file.parent)
    return len(dead)


def _is_removed(engine: Engine, container: str) -> bool:
    """Take a container away; return False if that did not work, perhaps because somebody else is at it."""
    impatient = replace(engine, patience=_SECONDS_TO_REMOVE)  # an agent can have an engine wait for what runs inside
    try:
        impatient.delete(f"/containers/{container}", force=True, v=True)
    except EngineError as error:
        return error.status == 404
    except EngineLostError:
        with suppress(BelljarError, ProcessLookupError):
            kill_container(Life.of(impatient.get(f"/containers/{container}/json")["State"]["Pid"]))
        return False
    return True


def _sweep_networks(engine: Engine) -> None:
    for network in engine.get("/networks", filters={"label": [LIFE]}):
        name, labels = network["Name"], network["Labels"]
        if _is_ours({"Labels": labels, "Names": [name]}) and _is_over(labels[LIFE]):
            with suppress(BelljarError):  # somebody else is at it, or we are not root
                Perimeter(engine, {OWNER: labels[OWNER]}).remove(name)


def _owner(life: Life) -> str:
    return f"run-{life.pid}-{life.started}-{life.boot[:8]}"


def _is_ours(container: Any) -> bool:
    """Tell whether a container is called as those are that belong to the life in its label."""
    try:
        pid, started, boot, _ = json.loads(container["Labels"][LIFE])
        name = f"belljar-{_owner(Life(pid, started, boot))}-"
    except (ValueError, TypeError):
        return False
    return any(known.removeprefix("/").startswith(name) for known in container["Names"])


def _is_over(written: str) -> bool:
    """Tell whether a life is over. Of one that cannot be seen from here, nobody can tell."""
    try:
        pid, started, boot, namespace = json.loads(written)
        if boot != Life.of(getpid()).boot:
            return True
        if namespace != _namespace("self"):
            return False
        descriptor = pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (ValueError, TypeError, OverflowError, OSError):  # nothing that we have written
        return False
    try:
        return has_ended(descriptor) or Life.of(pid).started != started
    except ProcessLookupError:  # it has ended just now, or is somebody's whose processes are hidden from us
        return has_ended(descriptor)
    except OSError:
        return False
    finally:
        close(descriptor)


def _namespace(process: str) -> int:
    return Path(f"/proc/{process}/ns/pid").stat().st_ino
