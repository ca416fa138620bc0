"""What the local backend needs of a machine, what is missing, and what mends it."""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from belljar.backends.findings import Finding
from belljar.linux import sharedmemory
from belljar.linux.cgroups import Group, NoControllerError
from belljar.linux.programs import ProgramMissingError, find
from belljar.linux.seccomp import UnknownArchitectureError, program

_PROGRAMS: Final = {"bwrap": "bubblewrap", "nft": "nftables", "ip": "iproute2"}
_LEAST_BUBBLEWRAP: Final = (0, 8)

_SETTINGS: Final = {
    "kernel.apparmor_restrict_unprivileged_userns": "0",
    "kernel.unprivileged_userns_clone": "1",
}
"""Settings by which distributions keep user namespaces from ordinary users, and the values that allow them."""


def findings(trial: Callable[[], str | None]) -> Iterator[Finding]:
    """Look at everything; `trial` makes a sandbox and returns why that did not work."""
    yield from map(_program, _PROGRAMS)
    yield _system_call_filter()
    yield from _settings()
    yield from _limits()
    failure = trial()
    yield Finding("a sandbox", failure is None, failure or "was made, sealed, and gone again")


def _program(name: str) -> Finding:
    install = f"sudo apt-get install {_PROGRAMS[name]}"
    try:
        path = find(name)
    except ProgramMissingError:
        return Finding(name, holds=False, detail="is not installed", remedy=install)
    if name == "bwrap" and (version := _bubblewrap_version(path)) < _LEAST_BUBBLEWRAP:
        written = ".".join(map(str, version))
        return Finding(name, holds=False, detail=f"is {written}, and 0.8 is the oldest that works", remedy=install)
    return Finding(name, holds=True, detail=path)


def _bubblewrap_version(path: str) -> tuple[int, ...]:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    return tuple(map(int, re.findall(r"\d+", said)))


def _system_call_filter() -> Finding:
    try:
        program()
    except UnknownArchitectureError as error:
        return Finding("system call filter", holds=False, detail=str(error), remedy="use an x86_64 or aarch64 machine")
    return Finding("system call filter", holds=True, detail="is there for this machine")


def _settings() -> Iterator[Finding]:
    for name, value in _SETTINGS.items():
        path = Path("/proc/sys") / name.replace(".", "/")
        if path.exists():
            found = path.read_text().strip()
            remedy = f"sudo sysctl -w {name}={value}   (and in /etc/sysctl.d to keep it)"
            # With a profile of its own, bubblewrap may do what the setting keeps from others; the trial tells.
            yield Finding(name, found == value, f"is {found}", remedy, needed=False)
    most = Path("/proc/sys/user/max_user_namespaces").read_text().strip()
    yield Finding("user namespaces", most != "0", f"at most {most}", "sudo sysctl -w user.max_user_namespaces=10000")


def _limits() -> Iterator[Finding]:
    yield _limit("memory", "what programs use is not limited as a whole", memory_bytes=1 << 30)
    yield _limit("processors", "--cpu-limit is refused", cpus=1.0)
    if not sharedmemory.can_be_bounded():
        lack = "is limited with all memory, or not at all: a limit of its own takes Linux 6.9 or later"
        yield Finding("System V shared memory", holds=False, detail=lack, needed=False)


def _limit(what: str, otherwise: str, *, cpus: float | None = None, memory_bytes: int | None = None) -> Finding:
    name = f"control groups for {what}"
    try:
        Group(cpus=cpus, memory_bytes=memory_bytes).remove()
    except NoControllerError as error:
        remedy = "as an ordinary user: systemd-run --user --scope belljar run ..."
        return Finding(name, holds=False, detail=f"{error}; {otherwise}", remedy=remedy, needed=False)
    return Finding(name, holds=True, detail="can be made")
