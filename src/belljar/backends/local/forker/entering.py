"""A process becomes one of a sandbox's own: in all its namespaces, and with no more rights than its first process.

Theory of operation
-------------------
The network namespace belongs to the outer user namespace, the others to the one that bubblewrap made in it, and the
agent lives in a third, nested in that. Whoever started the sandbox owns the outer one and has every right in it, and so
in all below; the nested ones give none upwards. Hence the order: the outer user namespace first, then everything else,
and the agent's user namespace last.

A process does not move to a PID namespace, only its children do. All preparations thus happen where the agent cannot
see the process that makes them, and where no signal from inside can reach it. What is then forked into the sandbox has
already lost every privilege, holds no descriptor but the command's streams, and is closed to debuggers (not dumpable)
until it has become another program. (That we are Python, and with which words we were started, the agent can see.)

That program is always the sandbox's own shell, from a read-only mount: were it one of the agent's choice, it could be
`/proc/self/exe`, and the agent would get hold of the host's Python.
"""

import fcntl
import os
import signal
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn

from belljar.backends.interface import GoneError, LostError, MachineError, SpecError
from belljar.backends.local.child import bubblewrap, staging
from belljar.backends.local.child.lacks import StagingError
from belljar.backends.local.records import Record
from belljar.linux import coredumps
from belljar.linux.cgroups import limits
from belljar.linux.descriptors import is_readable
from belljar.linux.lives import has_ended
from belljar.linux.namespaces import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, setns
from belljar.linux.privileges import drop_capabilities, forbid_new_privileges, install_filter
from belljar.linux.processes import keep_memory_private, restore_signals
from belljar.linux.seccomp import callfilter
from belljar.sandbox.spec import Command
from belljar.sandbox.starting import START

_NS_GET_USERNS: Final = 0xB701
_NS_GET_PARENT: Final = 0xB702
_NAMESPACES: Final = {
    "mnt": CLONE_NEWNS,
    "net": CLONE_NEWNET,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": CLONE_NEWIPC,
    "pid": CLONE_NEWPID,
}
_SHELL: Final = bubblewrap.SHELL
_EXIT_NOT_EXECUTED: Final = 125
_SECONDS_TO_EXECUTE: Final = 5.0


def enter_network(record: Record) -> None:
    """Become root of the outer user namespace, in the sandbox's network and nowhere else. Raises GoneError."""
    process, outer = _hold(record)
    _become_outer_root(record, outer)
    setns(process, CLONE_NEWNET)


def enter(record: Record) -> None:
    """Move to the sandbox and give up every privilege; children are forked into it. Raises GoneError."""
    process, outer = _hold(record)
    ours = {name: Path(f"/proc/self/ns/{name}").stat().st_ino for name in _NAMESPACES}
    theirs = {name: Path(f"/proc/{record.init.pid}/ns/{name}").stat().st_ino for name in _NAMESPACES}
    if has_ended(process):
        raise GoneError("the sandbox has just ended")
    _become_outer_root(record, outer)
    # Where the kernel has no control group namespaces, there is none to move to.
    setns(process, sum(flag for name, flag in _NAMESPACES.items() if ours[name] != theirs[name]))
    setns(process, CLONE_NEWUSER)
    drop_capabilities()
    forbid_new_privileges()
    keep_memory_private()  # last: every change of rights before makes the kernel choose anew


def start(record: Record, command: Command, streams: Sequence[int], keep: Sequence[int]) -> int:
    """Enter the sandbox and start a command; return its process. Only `keep` and the streams stay open.

    Raises GoneError, SpecError, MachineError, LostError.
    """
    environment = {**record.environment, **command.environment}
    arguments = [_SHELL, "-c", START, "belljar", *command.arguments]
    limits.add(map(Path, record.groups), 0)
    _prevent_core_dumps()
    enter(record)
    failed, failing = os.pipe()
    _close_all_but({0, 1, 2, *streams, *keep, failed, failing})
    _check_shell()
    _go_to(command.workdir or Path(record.workdir))
    child = os.fork()
    if child == 0:
        _execute(record, streams, arguments, environment, failing)
    os.close(failing)
    return _executed(child, failed)


def send_all(record: Record, number: int) -> None:
    """Send a signal to every process inside, in one step that nobody can outrun by forking. Raises GoneError.

    It is sent from the PID namespace around the sandbox's, where no signal from inside can reach the sender.
    """
    process, outer = _hold(record)
    inner = os.open(f"/proc/{record.init.pid}/ns/pid", os.O_RDONLY)
    if has_ended(process):
        raise GoneError("the sandbox has just ended")
    around = fcntl.ioctl(inner, _NS_GET_PARENT)
    _become_outer_root(record, outer)
    setns(around, CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        try:
            os.kill(-1, number)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def _hold(record: Record) -> tuple[int, int]:
    """Return descriptors of the first process and of the outer user namespace."""
    try:
        process = record.init.hold()
        network = os.open(f"/proc/{record.init.pid}/ns/net", os.O_RDONLY)
    except (ProcessLookupError, FileNotFoundError):
        raise GoneError("the sandbox has ended") from None
    if os.fstat(network).st_ino != record.network or has_ended(process):
        raise GoneError("the sandbox has ended")
    return process, fcntl.ioctl(network, _NS_GET_USERNS)


def _become_outer_root(record: Record, outer: int) -> None:
    if record.is_stand_in:
        os.setgroups([])
    setns(outer, CLONE_NEWUSER)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def _prevent_core_dumps() -> None:
    try:
        coredumps.prevent()  # before the filter, which keeps it so
    except coredumps.CoreDumpsError as error:
        raise MachineError(str(error)) from None


def _close_all_but(kept: set[int]) -> None:
    edges = sorted(kept)
    for before, after in pairwise(edges):
        os.closerange(before + 1, after)
    os.closerange(edges[-1] + 1, os.sysconf("SC_OPEN_MAX"))


def _check_shell() -> None:
    """Make sure that the agent cannot have changed the program that we are about to become."""
    try:
        flags = os.statvfs(_SHELL).f_flag
    except OSError as error:
        raise MachineError(f"there is no {_SHELL} in the sandbox to start commands with: {error}") from error
    if not flags & os.ST_RDONLY:
        raise MachineError(f"the agent may have changed {_SHELL}, since it is writable inside; bind nothing over it")


def _go_to(workdir: Path) -> None:
    try:
        os.chdir(workdir)
    except OSError as error:
        raise SpecError(f"a command cannot work in {workdir}: {error.strerror}; choose another directory") from error


def _execute(
    record: Record, streams: Sequence[int], arguments: list[str], environment: dict[str, str], failing: int
) -> NoReturn:
    """Become the command. This runs inside, and in the agent's sight."""
    try:
        program = callfilter.program(debugger=record.debugger)
        os.setsid()
        staging.connect_streams(streams)
        os.umask(0o022)
        restore_signals()
        install_filter(program)
        staging.limit(record.address_space)  # last: it may be less than Python has already
        os.execve(_SHELL, arguments, environment)  # noqa: S606 - the shell replaces itself by the command
    except (OSError, ValueError, StagingError) as error:
        os.write(failing, str(error).encode())
    finally:
        os._exit(_EXIT_NOT_EXECUTED)


def _executed(child: int, failed: int) -> int:
    """Wait until the child has become another program. The agent could have stopped or killed it before."""
    if not is_readable(failed, _SECONDS_TO_EXECUTE):
        os.kill(child, signal.SIGKILL)
        raise LostError("the command was stopped from inside before it began")
    if why := os.read(failed, 4096):
        raise SpecError(f"the command cannot be started: {why.decode()}")
    return child
