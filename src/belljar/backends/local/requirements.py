"""What the local backend needs of a machine, what is missing, and what mends it."""

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Final

from belljar.backends.findings import MachineFinding
from belljar.backends.local import surroundings
from belljar.linux import sharedmemory
from belljar.linux.cgroups.limits import Group, NoControllerError
from belljar.linux.programs import ENVIRONMENT, ProgramMissingError, find
from belljar.linux.seccomp.callfilter import UnknownArchitectureError, program

_PROGRAMS: Final = {"bwrap": "bubblewrap", "nft": "nftables"}
_LEAST_BUBBLEWRAP: Final = (0, 8)


def findings(trial: Callable[[], str | None]) -> Iterator[MachineFinding]:
    """Look at everything; `trial` makes a sandbox and returns why that did not work."""
    yield from map(_program, _PROGRAMS)
    yield _system_call_filter()
    yield from _settings()
    yield from _container()
    yield from _limits()
    failure, _, remedy = (trial() or "").partition("\n")
    detail = failure or "was made, sealed, and gone again"
    yield MachineFinding("a sandbox", not failure, detail, " ".join(remedy.splitlines()))


def _program(name: str) -> MachineFinding:
    install = f"sudo apt-get install {_PROGRAMS[name]}"
    try:
        path = find(name)
    except ProgramMissingError as error:
        return MachineFinding(name, holds=False, detail=error.problem, remedy=error.remedy(_PROGRAMS[name]))
    if name == "bwrap" and (version := _bubblewrap_version(path)) < _LEAST_BUBBLEWRAP:
        written = ".".join(map(str, version))
        return MachineFinding(
            name, holds=False, detail=f"is {written}, and 0.8 is the oldest that works", remedy=install
        )
    return MachineFinding(name, holds=True, detail=path)


def _bubblewrap_version(path: str) -> tuple[int, ...]:
    command = [path, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT).stdout  # noqa: S603
    return tuple(map(int, re.findall(r"\d+", said)))


def _system_call_filter() -> MachineFinding:
    try:
        program()
    except UnknownArchitectureError as error:
        return MachineFinding(
            "system call filter", holds=False, detail=str(error), remedy="use an x86_64 or aarch64 machine"
        )
    return MachineFinding("system call filter", holds=True, detail="is there for this machine")


def _settings() -> Iterator[MachineFinding]:
    for name, command in surroundings.closed_settings():
        detail, remedy = "keeps user namespaces from ordinary users", f"{command}   (and in /etc/sysctl.d to keep it)"
        # With a profile of its own, a program may do what the setting keeps from others; the trial tells.
        yield MachineFinding(name, holds=False, detail=detail, remedy=remedy, needed=False)
    most = surroundings.most_namespaces()
    yield MachineFinding("user namespaces", most != "0", f"at most {most}", surroundings.MORE_NAMESPACES)


def _container() -> Iterator[MachineFinding]:
    """Tell of a container around us: whether it leaves enough, the trial tells, and what to ask for otherwise."""
    if around := surroundings.engine():
        filtered = "a system call filter" if surroundings.is_filtered() else "no system call filter"
        profile = surroundings.profile()
        confined = f"the AppArmor profile {profile}" if profile else "no AppArmor profile"
        yield MachineFinding("container", holds=True, detail=f"of {around.name}, with {filtered} and {confined}")


def _limits() -> Iterator[MachineFinding]:
    yield _limit("memory", "what programs use is not limited as a whole", memory_bytes=1 << 30)
    yield _limit("processors", "--cpu-limit is refused", cpus=1.0)
    if not sharedmemory.can_be_bounded():
        lack = "is limited with all memory, or not at all: a limit of its own takes Linux 6.9 or later"
        yield MachineFinding("System V shared memory", holds=False, detail=lack, needed=False)


def _limit(what: str, otherwise: str, *, cpus: float | None = None, memory_bytes: int | None = None) -> MachineFinding:
    name = f"control groups for {what}"
    try:
        Group(cpus=cpus, memory_bytes=memory_bytes).remove()
    except NoControllerError as error:
        remedy = "as an ordinary user: systemd-run --user --scope belljar run ..."
        return MachineFinding(name, holds=False, detail=f"{error}; {otherwise}", remedy=remedy, needed=False)
    return MachineFinding(name, holds=True, detail="can be made")
