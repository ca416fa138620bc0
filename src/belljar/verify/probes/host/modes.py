"""Programs that run with their owner's rights: made inside, they would work outside, where the owner may be root."""

import ctypes
import os
import platform
import stat
from pathlib import Path
from typing import Final

from belljar.verify.probes.host.kernel import call
from belljar.verify.probes.kit import Finding, Mark, inside

_CALLS: Final = {
    "x86_64": {"chmod": 90, "fchmod": 91, "fchmodat": 268, "fchmodat2": 452, "creat": 85, "open": 2, "openat": 257,
               "mknod": 133, "mknodat": 259},
    "aarch64": {"fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "openat": 56, "mknodat": 33},
}  # fmt: skip
_NEWER: Final = "fchmodat2"
"""A call that older kernels do not have."""

_HERE: Final = -100  # AT_FDCWD
_HARMLESS: Final = 0o755
_SET_IDS: Final = {"user": stat.S_ISUID, "group": stat.S_ISGID}


@inside(58, "set-ids", "programs that run with their owner's rights, made by every call that gives a file its mode")
def set_ids(mark: Mark) -> Finding:
    calls = _CALLS[platform.machine()]
    if useless := [name for name in calls if name != _NEWER and not _mode_by(mark, name, _HARMLESS)]:
        raise RuntimeError(f"{', '.join(useless)}: no file was given a mode that is harmless")
    worked = [
        f"{name} (set {whose} ID)"
        for name in calls
        for whose, bit in _SET_IDS.items()
        if _mode_by(mark, name, _HARMLESS | bit) & bit
    ]
    worked += [f"a file without a name (set {whose} ID)" for whose, bit in _SET_IDS.items() if _unnamed(bit) & bit]
    return Finding(not worked, f"worked: {', '.join(worked)}" if worked else f"refused: {', '.join(calls)}")


def _mode_by(mark: Mark, name: str, mode: int) -> int:
    """Have a call give a file in the working directory a mode; return what it has by then, or 0 if that fails."""
    path = Path(f"{mark.token}-{name}")
    if "chmod" in name:
        path.touch(0o600)
    descriptor = os.open(path, os.O_RDONLY) if name == "fchmod" else _HERE
    place = ctypes.create_string_buffer(os.fsencode(path))
    at, making = ctypes.addressof(place), os.O_WRONLY | os.O_CREAT
    arguments = {
        "chmod": (at, mode),
        "fchmod": (descriptor, mode),
        "fchmodat": (_HERE, at, mode),
        "fchmodat2": (_HERE, at, mode, 0),
        "creat": (at, mode),
        "open": (at, making, mode),
        "openat": (_HERE, at, making, mode),
        "mknod": (at, stat.S_IFREG | mode, 0),
        "mknodat": (_HERE, at, stat.S_IFREG | mode, 0),
    }
    try:
        failed = call(_CALLS[platform.machine()][name], *arguments[name])
        return 0 if failed else stat.S_IMODE(path.stat().st_mode)
    finally:
        path.unlink(missing_ok=True)


def _unnamed(bit: int) -> int:
    """Make a file that can be given a name later; return its mode, or 0 if that fails."""
    try:
        descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, _HARMLESS | bit)
    except OSError:
        return 0
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
