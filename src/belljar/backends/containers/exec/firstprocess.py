"""The first process of a container, as this machine sees it: what becomes of its memory."""

from pathlib import Path
from typing import Any

from belljar.backends.containers.engine.client import Engine, EngineError, EngineLostError
from belljar.linux.cgroups.limits import place_of
from belljar.linux.cgroups.memorykills import MemoryWatch


def is_here(container: str, pid: int) -> bool:
    """Tell whether the process of this number is a container's.

    An engine in a container or a virtual machine of its own tells numbers that belong to other processes here.
    """
    try:
        return container in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False


class Exhaustion:
    """Whether a container runs out of memory from now on."""

    def __init__(self, engine: Engine, found: Any) -> None:
        """Begin to watch the container that an engine has found."""
        self._engine, self._container = engine, found["Id"]
        place = place_of(found["State"]["Pid"], "memory") if is_here(found["Id"], found["State"]["Pid"]) else None
        self._watch = MemoryWatch([] if place is None else [place])

    def has_come(self) -> bool:
        """Tell whether something in it was ended for want of memory; False where nobody knows."""
        return self._watch.ran_out() or (self._watch.has_lost_sight and self._ended_all())

    def _ended_all(self) -> bool:
        """Ask the engine, if all processes have ended, and the kernel's count with them."""
        try:
            return bool(self._engine.get(f"/containers/{self._container}/json")["State"]["OOMKilled"])
        except (EngineError, EngineLostError):
            return False
