"""What one sandbox may take of the machine, beside files in memory (`belljar.verify.probes.host.mounted`)."""

import ctypes
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

from belljar.verify.probes.kit import Finding, Mark, inside

_libc = ctypes.CDLL(None, use_errno=True)

_GROUPS: Final = {
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
    "pids": ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max"),
}
"""Where a control group says what its limit is, in either version."""

_PRIVATE: Final = 0  # IPC_PRIVATE
_REMOVE: Final = 0  # IPC_RMID
_FOR_OWNER: Final = 0o600
_TAKE_NOTHING_YET: Final = 0o10000  # SHM_NORESERVE
_PARTS: Final = 4
_MOST_SETS: Final = 1024
"""How many queues of messages, and how many sets of semaphores, there may be."""


@inside(
    71, "limits", "limits of processes, raised above what is promised, and those of control groups that can be seen"
)
def limits(mark: Mark) -> Finding:
    promised = {name: most for name, most in mark.scene.bounds.items() if name.startswith("RLIMIT_") or name in _GROUPS}
    if not promised:
        raise RuntimeError("no limit is promised")
    higher = [name for name, most in promised.items() if _can_be_above(name, most)]
    evidence = f"can be higher: {', '.join(higher)}" if higher else f"cannot be higher: {', '.join(promised)}"
    return Finding(not higher, evidence)


def _can_be_above(name: str, most: int) -> bool:
    if name in _GROUPS:
        return not any(_is_at_most(Path(file), most) for file in _GROUPS[name])
    try:
        resource.setrlimit(getattr(resource, name), (most + 1, most + 1))
    except (OSError, ValueError):
        return False
    return True


def _is_at_most(file: Path, most: int) -> bool:
    try:
        return int(file.read_text()) <= most
    except (OSError, ValueError):  # "max" is no limit
        return False


@inside(71, "shared-memory", "shared memory, messages and semaphores of the System V kind, which outlive programs")
def shared_memory(mark: Mark) -> Finding:
    part = mark.scene.bounds["shared"] // _PARTS
    found = {
        "shared memory": _made(_make_memory(part), _libc.shmctl, _PARTS + 1) > _PARTS,
        "messages": _made(_make_queue, _libc.msgctl, _MOST_SETS + 1) > _MOST_SETS,
        "semaphores": _made(_make_semaphore, _remove_semaphore, _MOST_SETS + 1) > _MOST_SETS,
    }
    boundless = [what for what, is_boundless in found.items() if is_boundless]
    return Finding(
        not boundless, f"no bound on: {', '.join(boundless)}" if boundless else f"bounded: {', '.join(found)}"
    )


def _made(make: Callable[[], int], remove: Callable[[int, int, None], int], most: int) -> int:
    """Return how many can be made; nothing is left of them."""
    made: list[int] = []
    while len(made) < most and (one := make()) >= 0:
        made.append(one)
    for one in made:
        remove(one, _REMOVE, None)
    return len(made)


def _make_memory(size: int) -> Callable[[], int]:
    def make() -> int:
        return int(_libc.shmget(_PRIVATE, ctypes.c_size_t(size), _FOR_OWNER | _TAKE_NOTHING_YET))

    return make


def _make_queue() -> int:
    return int(_libc.msgget(_PRIVATE, _FOR_OWNER))


def _make_semaphore() -> int:
    return int(_libc.semget(_PRIVATE, 1, _FOR_OWNER))


def _remove_semaphore(identifier: int, command: int, _: None) -> int:
    return int(_libc.semctl(identifier, 0, command))
