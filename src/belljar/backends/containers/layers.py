"""The layers of a container: seen from outside where the engine is on this machine, and else by our program inside.

That program has the agent's rights, since it is there to find out how far these go. An agent may meddle with it, and
make a layer look better or worse than it is; what can be seen from outside is thus taken from there.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from belljar.backends.containers.exec.firstprocess import is_here
from belljar.backends.interface import LostError
from belljar.sandbox.layers import Layer, Observations, layers
from belljar.sandbox.looking import look_at_process
from belljar.sandbox.toolbox.model import MODULES, Toolbox

_REMEDY: Final[Mapping[str, str]] = {
    "docker": 'put {"userns-remap": "default"} into /etc/docker/daemon.json, or use a rootless engine',
    "podman": "run Podman as an ordinary user: systemctl --user start podman.socket",
}


def looking(toolbox: Toolbox) -> tuple[str, ...]:
    """Return what our Python is told to run inside."""
    modules = f"{toolbox.place}{MODULES}"
    return "-c", f"import sys; sys.path.insert(0, '{modules}'); from {look_at_process.__module__} import main; main()"


def layers_of(kind: str, found: Any, told: bytes) -> tuple[Layer, ...]:
    """Tell the layers of a container that an engine has found, with what our program has told. Raises LostError."""
    container, pid = found["Id"], found["State"]["Pid"]
    try:
        inside = json.loads(told)
        first = look_at_process(pid) if is_here(container, pid) else inside["first"]
        processes = {"its first process": first, "a command": inside["command"]}
        return layers(Observations(processes, inside["network"], _has_own_network(container, pid)), _REMEDY[kind])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise LostError(f"what our program said inside cannot be understood; was it meddled with? {error!r}") from error


def _has_own_network(container: str, pid: int) -> bool | None:
    if not is_here(container, pid):
        return None
    try:
        return not Path(f"/proc/{pid}/ns/net").samefile("/proc/self/ns/net")
    except OSError:
        return None  # only who owns a process may look
