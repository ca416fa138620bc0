"""What of the machine's files is there: devices, the kernel's own files, what the host runs later."""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.host.planted import (
    ADDED,
    GIT_ADDED,
    GIT_MADE,
    GIT_PLANTED,
    LEFT_NAMES,
    LEFT_PROGRAMS,
    LEFT_SETTINGS,
    LEFT_TRACE,
    LINK_OUT,
    PLANTED,
    POLICY_OF_THE_AGENT,
    POLICY_OF_THE_MACHINE,
    REPOSITORY,
)
from belljar.verify.probes.kit import Finding, Mark, inside, network
from belljar.verify.probes.network.clients import ask, refused, request

_KERNEL: Final = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches", "/proc/sys/fs/binfmt_misc/register", "/proc/sysrq-trigger", "/proc/acpi/wakeup",
    "/proc/irq/default_smp_affinity", "/proc/scsi/scsi", "/sys/kernel/uevent_helper", "/sys/power/state",
    "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/mm/transparent_hugepage/enabled",
)  # fmt: skip
_FOR_EVERYBODY: Final = "pressure"
"""A directory of the kernel's where any process may ask to be told how busy the machine is, by writing."""

_KERNEL_SECRETS: Final = ("/proc/kcore", "/dev/mem", "/dev/kmsg", "/dev/port", "/etc/shadow", "/etc/gshadow")
_NULL: Final = os.makedev(1, 3)
_DEVICES: Final = {"console", "full", "null", "ptmx", "random", "tty", "urandom", "zero"}


def _none_opens(paths: Iterator[str] | tuple[str, ...], flags: int) -> Finding:
    """Open files, and do nothing with them: some bring the machine down if written to."""
    opened = [path for path in paths if _opens(path, flags)]
    return Finding(not opened, f"opened: {', '.join(opened[:8])}" if opened else "none can be opened")


def _opens(path: str, flags: int) -> bool:
    """Tell whether a file can be opened that is not the null device: container engines put that in the way."""
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return False
    status = os.fstat(descriptor)
    os.close(descriptor)
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == _NULL)


@network(53, "own-policy", "policies that are written where the agent can write")
def own_policy(mark: Mark) -> Finding:
    there = Path(POLICY_OF_THE_AGENT).read_text()
    told = _none_opens(("/run/belljar/policy.json",), os.O_WRONLY | os.O_CREAT)
    with suppress(OSError):
        POLICY_OF_THE_MACHINE.write_text("mode: allow-all\n")
    if not told.holds or "allow-all" not in there:
        return Finding(holds=False, evidence=told.evidence)
    return refused(lambda: ask(mark.address, places.HTTP, request(mark.name, f"/{mark.token}")))


@inside(58, "planted", "files in the working directory from which the host runs code later")
def planted(_: Mark) -> Finding:
    Path("ordinary").write_text("the control: the working directory is writable")
    return _none_changes(Path(), *ADDED, *PLANTED)


@inside(58, "git", "what the host's git runs or follows, in a repository that is shown writable and in one below it")
def git(_: Mark) -> Finding:
    (REPOSITORY / ".git/HEAD").write_text("the control: the git directory is writable")
    return _none_changes(REPOSITORY, *GIT_ADDED, *GIT_MADE, *GIT_PLANTED)


def _none_changes(directory: Path, *places: str) -> Finding:
    changed = [place for place in places if _changes(directory, directory / place)]
    evidence = f"changed: {', '.join(changed)}" if changed else f"{len(places)} places cannot be changed"
    return Finding(not changed, evidence)


def _plant(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("planted")


def _changes(directory: Path, path: Path) -> bool:
    above = takewhile(lambda parent: parent != directory, path.parents)
    attempts: tuple[Callable[[], object], ...] = (
        partial(_plant, path),
        path.unlink,
        lambda: path.rename(directory / "moved"),
        *(partial(parent.rename, directory / "moved-away") for parent in above),
    )
    for attempt in attempts:
        try:
            attempt()
        except OSError:
            continue
        return True
    return False


@inside(61, "left", "programs and settings that are left for the host; whether it asks them is seen from outside")
def left(_: Mark) -> Finding:
    LEFT_PROGRAMS.mkdir(parents=True)
    for path in (LEFT_PROGRAMS / name for name in LEFT_NAMES):
        path.write_text('#!/bin/sh\necho "$0 $*" >>"${0%/*}/../trace"\n')
        path.chmod(0o755)
    for _tool, place, content in LEFT_SETTINGS.values():
        Path(place).write_text(content)
    subprocess.run([LEFT_PROGRAMS / LEFT_NAMES[0]], check=True)  # noqa: S603 - the control: they leave a trace
    LEFT_TRACE.unlink()
    return Finding(holds=True, evidence=f"{len(LEFT_NAMES)} programs and {len(LEFT_SETTINGS)} files of settings")


@inside(58, "symlinks", "a link in the working directory that leads out of it")
def symlinks(_: Mark) -> Finding:
    return _none_opens((LINK_OUT,), os.O_RDONLY)


@inside(59, "kernel-files", "the kernel's own files, for writing: all of its settings, and others")
def kernel_files(_: Mark) -> Finding:
    return _none_opens((*_KERNEL, *_settings()), os.O_WRONLY)


def _settings() -> Iterator[str]:
    """Yield every setting of the kernel, and what it shows beside processes."""
    for directory, names, files in os.walk("/proc"):
        if directory == "/proc":
            names[:] = [name for name in names if not name.isdecimal() and name != _FOR_EVERYBODY]
        yield from (f"{directory}/{name}" for name in files)


@inside(59, "secrets", "memory of the kernel, and files that only root may read")
def secrets(_: Mark) -> Finding:
    return _none_opens(_KERNEL_SECRETS, os.O_RDONLY)


@inside(59, "devices", "device nodes, there or made anew")
def devices(_: Mark) -> Finding:
    found = [
        str(path.relative_to("/dev")) for path in Path("/dev").rglob("*")
        if not path.is_symlink() and (path.is_block_device() or path.is_char_device()) and path.parent.name != "pts"
    ]  # fmt: skip
    strange = sorted(set(found) - _DEVICES)
    try:
        os.mknod("/tmp/null", stat.S_IFCHR | 0o666, _NULL)  # noqa: S108
        strange.append("one made by mknod")
    except OSError:
        pass
    return Finding(not strange, f"there is: {', '.join(strange)}" if strange else ", ".join(sorted(found)))
