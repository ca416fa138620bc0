"""What is mounted inside: whose file systems those are, what can be written to, and how much."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from belljar.verify.probes.host.mounttable import Mount, mounted
from belljar.verify.probes.host.planted import WRITTEN
from belljar.verify.probes.kit import Finding, Mark, inside

_FRESH: Final = {"tmpfs", "proc", "devpts", "mqueue", "devtmpfs", "overlay"}
_ROOT: Final = Path("/")
_OWN: Final = tuple(map(Path, ("/tmp", "/var/tmp", "/run", "/dev/shm", "/dev/mqueue", "/proc")))  # noqa: S108
"""Places that every sandbox has for itself, beside a home and the working directory."""


@inside(59, "mounts", "mounts that are writable, and are neither the working directory nor made for the sandbox")
def mounts(_: Mark) -> Finding:
    return _none_is(
        lambda mount: mount.is_writable and mount.kind not in _FRESH and not mount.is_for_work and mount.place != _ROOT
    )


@inside(59, "shared-mounts", "writable file systems that are there outside as well")
def shared_mounts(mark: Mark) -> Finding:
    parts = {tuple(outside) for outside in mark.scene.mounts}
    devices = {device for device, _ in parts}
    if not devices:
        raise RuntimeError("it is not known what is mounted outside")

    def is_shared(mount: Mount) -> bool:
        if not mount.is_writable or mount.is_for_work or mount.place.is_char_device():
            return False
        if mount.place == _ROOT:  # an image's may be a part of the disk that it is kept on
            return (mount.device, mount.root) in parts
        return mount.device in devices

    return _none_is(is_shared)


@inside(59, "setuid-mounts", "mounts that setuid programs work on")
def setuid_mounts(_: Mark) -> Finding:
    return _none_is(lambda mount: "nosuid" not in mount.options)


def _none_is(is_wrong: Callable[[Mount], bool]) -> Finding:
    table = list(mounted())
    wrong = [f"{mount.place} ({','.join(sorted(mount.options))})" for mount in table if is_wrong(mount)]
    return Finding(not wrong, f"wrong: {'; '.join(wrong[:4])}" if wrong else f"{len(table)} mounts, none of them")


@inside(59, "read-only", "new files in / and /dev, and in all directories above and between mounts")
def read_only(mark: Mark) -> Finding:
    own = (*_OWN, *({Path.home()} - {_ROOT}), Path.cwd())
    around = {above for mount in mounted() for above in (mount.place, *mount.place.parents) if above.is_dir()}
    tried = [directory for directory in sorted(around) if not any(map(directory.is_relative_to, own))]
    written = [str(directory) for directory in tried if _is_written(directory / mark.token)]
    evidence = f"written to: {', '.join(written)}" if written else f"none in {len(tried)} directories"
    return Finding(not written, evidence)


def _is_written(path: Path) -> bool:
    with suppress(OSError):
        path.touch()
        path.unlink()
        return True
    return False


@inside(59, "written", "files in all writable places; whether they appear on the host is seen from outside")
def written(_: Mark) -> Finding:
    name = WRITTEN.format(workshop=Path.cwd().parent.name)
    places = [mount.place for mount in mounted() if mount.is_writable and not mount.is_for_work]
    for place in places:
        with suppress(OSError):
            (place / name).touch()
    made = [str(place) for place in places if (place / name).exists()]
    if not made:
        raise RuntimeError("there is no place to write to")
    return Finding(holds=True, evidence=f"written to: {', '.join(made)}")


def _holds_files(place: Path) -> bool:
    """Tell whether something can be kept there, as it cannot in a device."""
    return os.access(place, os.W_OK) and (place.is_dir() or place.is_file())


@inside(71, "memory", "files in memory, as large and as many as can be")
def memory(mark: Mark) -> Finding:
    """Add up what the kernel says there can be: all of it at once would take the machine's memory.

    A working directory in memory, as one below /tmp is on many machines, is the caller's, and bounded by the machine.
    """
    writable = (mount for mount in mounted() if mount.is_writable and not mount.is_for_work)
    in_memory = (mount for mount in writable if mount.kind == "tmpfs")
    places = [mount for mount in in_memory if _holds_files(mount.place)]
    sizes = {mount.device: os.statvfs(mount.place) for mount in places}  # one file system may be seen twice
    boundless = [device for device, size in sizes.items() if not size.f_blocks or not size.f_files]
    found = {
        "bytes": sum(size.f_blocks * size.f_frsize for size in sizes.values()),
        "files": sum(size.f_files for size in sizes.values()),
    }
    beyond = [what for what, most in found.items() if most > mark.scene.bounds.get(what, most)]
    evidence = ", ".join(f"{most} {what}" for what, most in found.items())
    where = ", ".join(str(mount.place) for mount in places)
    return Finding(bool(sizes) and not boundless and not beyond, f"at most {evidence} in {where}")
