"""The child that becomes the sandbox: it moves to new namespaces, seals them, and turns into bubblewrap.

Theory of operation
-------------------
The command line forks this child before it has threads. The child unshares a user and a network namespace (the
*outer* ones), and its parent says who it is in them. It arms the network namespace, hands the listeners to its parent,
and waits. Once the parent serves them it says go, and the child executes bubblewrap, which makes a *nested* user
namespace for the agent: the network namespace belongs to the outer one, so nothing inside can change it, not even as
root.

Before it waits, the child hands over to a sibling, the first process of a PID namespace around bubblewrap's. What an
agent can get hold of, bubblewrap's init included, can be told to survive; but not the end of the namespace around it.
So when that sibling has ended, by whatever cause, nothing that was inside is left.

If the parent dies, the child reads the end of the channel, or is killed by the kernel. If the child fails, it writes
why to a pipe that closes by itself when bubblewrap takes over.

What is to be seen inside, the child mounts at a place of its own, in a mount namespace that ends with the sandbox, and
bubblewrap takes it from there. A path could lead elsewhere by the time that bubblewrap follows it: another agent may be
at work in a directory above. Also, root's agent is a stand-in that could not even enter root's directories; so for it
the child does that while it is still root, and mounts what is writable so that the stand-in appears as the owner.
"""

import fcntl
import os
import resource
import signal
import socket
import stat
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from belljar.backends.local import bubblewrap
from belljar.backends.local.identity import Identity
from belljar.errors import BelljarError
from belljar.linux import mounts
from belljar.linux.descriptors import send_sockets
from belljar.linux.namespaces import CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWUSER, unshare
from belljar.linux.processes import fork_sibling, get_signal_when_parent_dies, restore_signals
from belljar.linux.programs import ProgramMissingError, find
from belljar.sandbox.arming import arm_here
from belljar.sandbox.spec import Bind, Spec
from belljar.sandbox.view import View

UNSHARED: Final = b"u"
MAPPED: Final = b"m"
GO: Final = b"g"

EXIT_FAILED: Final = 125

MOST_PROCESSES: Final = 4096
"""How many processes and threads there may be inside: many for any work, few for the machine."""

_STANDARD_ERROR: Final = 2
_STAGE: Final = Path("/sys")  # any directory that is always there; only we see what we mount on it


class StagingError(BelljarError):
    """The sandbox could not be made."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the child has to know."""

    spec: Spec
    view: View
    identity: Identity
    streams: Sequence[int]
    """What becomes its standard input, output and error."""

    sealed: bool
    """Whether it gets a network namespace of its own."""

    udp: bool
    address_space: int | None = None
    """A limit on the memory of each process, where there is no better one."""

    outlives_maker: bool = False
    """Whether it lives on without us; its command is then its first process."""

    in_foreground: bool | None = None
    """Whether the command may read from the terminal that is among its streams; None if there is no terminal."""


def run(
    plan: Plan, channel: socket.socket, failures: int, status: int, session: socket.socket | None = None
) -> NoReturn:
    """Become the sandbox. Bubblewrap writes to `status` how it goes; `session` is for one with a terminal."""
    try:
        _become(plan, channel, status, session)
    except BelljarError as error:
        os.write(failures, str(error).encode())
    except Exception as error:  # noqa: BLE001 - the parent tells the user
        os.write(failures, f"the sandbox could not be made: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(EXIT_FAILED)


def _become(plan: Plan, channel: socket.socket, status: int, session: socket.socket | None) -> None:
    program = _bubblewrap()
    os.setsid()
    if plan.identity.is_stand_in:
        os.setgroups([])  # root's groups would open to the stand-in what they open to root
    source = _stage(plan) if plan.identity.is_stand_in else None
    _move_to_new_namespaces(CLONE_NEWUSER | (CLONE_NEWNET if plan.sealed else 0))
    channel.send(UNSHARED)
    _wait_for(channel, MAPPED)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    source = source or _stage(plan)
    listeners = arm_here(udp=plan.udp) if plan.sealed else None
    _hand_over_to_first_process(plan, session)
    if not plan.outlives_maker:
        get_signal_when_parent_dies(signal.SIGKILL)
    channel.send(os.fsencode(Path("/proc/self").readlink()))  # who we are to our parent, in whose namespace /proc is
    if listeners is not None:
        with closing(listeners):
            send_sockets(channel, listeners.groups())
    _connect(plan.streams)
    limit(plan.address_space)
    _wait_for(channel, GO)
    _keep_to_ourselves()
    os.set_inheritable(status, True)  # noqa: FBT003 - the standard library's interface
    life = "--as-pid-1" if plan.outlives_maker else "--die-with-parent"
    arguments = bubblewrap.arguments(plan.spec, plan.view, plan.identity, source, status)
    restore_signals()
    os.execve(program, ["bwrap", life, *arguments], {})  # noqa: S606 - there is to be no shell


def _bubblewrap() -> str:
    try:
        return find("bwrap")
    except ProgramMissingError as error:
        raise StagingError(f"{error}\nInstall it: sudo apt-get install bubblewrap") from error


def _move_to_new_namespaces(kinds: int) -> None:
    try:
        unshare(kinds)
    except OSError as error:
        raise StagingError(
            f"the kernel makes no user namespace for us: {error.strerror}\n"
            "`belljar doctor` tells what mends that. In a sandbox there are none: no sandbox can be made in another."
        ) from error


def _wait_for(channel: socket.socket, word: bytes) -> None:
    if channel.recv(1) != word:
        os._exit(EXIT_FAILED)  # the parent is gone, and there is nobody to tell


def _hand_over_to_first_process(plan: Plan, session: socket.socket | None) -> None:
    """Go on as the first process of a new PID namespace, whose end is the end of all in it.

    Where there is a terminal, who hands over stays as the leader of the session.
    """
    unshare(CLONE_NEWPID)
    if plan.in_foreground is None or session is None:
        if fork_sibling() != 0:
            os._exit(0)
        os.setsid()
        return
    from belljar.backends.local.leading import lead  # noqa: PLC0415 - our parent has imported it, if it is needed

    terminal = next(stream for stream in plan.streams if os.isatty(stream))
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    leader, ours = socket.socketpair()
    first = fork_sibling()
    if first != 0:
        ours.close()
        lead(first, terminal, leader, session, foreground=plan.in_foreground)
    leader.close()
    session.close()
    os.setpgid(0, 0)
    ours.send(b"\0")
    _wait_for(ours, b"\0")
    ours.close()


def _stage(plan: Plan) -> Callable[[Bind], Path]:
    """Mount what is seen inside at a place of our own; return where that is."""
    mounts.enter_private_mount_namespace()
    copies = {bind: _copy(bind) for bind in plan.view.binds}  # before anything is hidden by what we mount
    if plan.identity.is_stand_in:
        _make_owner(plan.identity, copies)
    mounts.mount_tmpfs(_STAGE)
    staged: dict[Bind, Path] = {}
    for bind, copy in copies.items():
        place = staged[bind] = _STAGE / str(len(staged))
        if stat.S_ISDIR(os.fstat(copy).st_mode):
            place.mkdir()
        else:
            place.touch()
        mounts.attach(copy, place)
        os.close(copy)
    return staged.__getitem__


def _copy(bind: Bind) -> int:
    try:
        return mounts.copy_of(bind.source)
    except OSError as error:
        raise StagingError(f"{bind.source} cannot be shown inside: {error.strerror}") from error


def _make_owner(identity: Identity, copies: Mapping[Bind, int]) -> None:
    """Have a stand-in appear as the owner of what it may write to, and of all that is in there."""
    owners = {bind: _owners(copy, identity) for bind, copy in copies.items() if bind.writable}
    with ExitStack() as namespaces:
        described = {one: namespaces.enter_context(mounts.user_namespace(one)) for one in set(owners.values())}
        for bind, copy in copies.items():
            around = next((one for one in owners if bind.source.is_relative_to(one.source)), None)
            if around is not None:
                _show_as(bind, copy, described[owners[around]])


def _owners(copy: int, identity: Identity) -> mounts.Owners:
    status = os.fstat(copy)
    return mounts.Owners((status.st_uid, identity.host_uid), (status.st_gid, identity.host_gid))


def _show_as(bind: Bind, copy: int, namespace: int) -> None:
    try:
        mounts.show_as(copy, namespace)
    except OSError as error:
        raise StagingError(
            f"{bind.source} cannot be made writable to a sandbox of root's: {error.strerror}\n"
            "That takes ext4, xfs, btrfs or (since Linux 6.3) tmpfs, for whatever is mounted below as well.\n"
            "Name another directory, or run Belljar as the user that owns it."
        ) from error


def _connect(streams: Sequence[int]) -> None:
    for target, stream in enumerate(streams):
        os.dup2(stream, target)


def connect_streams(streams: Sequence[int]) -> None:
    """Make some descriptors the standard streams; where there is a terminal, it becomes the controlling one."""
    _connect(streams)
    if os.isatty(0) or os.isatty(1) or os.isatty(2):
        terminal = next(stream for stream in (0, 1, 2) if os.isatty(stream))
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _keep_to_ourselves() -> None:
    """Have every descriptor but the standard streams close by itself, whoever opened it and left it open."""
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > _STANDARD_ERROR:
            with suppress(OSError):  # the one that the list was read from
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's interface


def limit(address_space: int | None) -> None:
    """Limit what this process, and what it becomes, may use."""
    # Not 0: that would stop a core dump to a file, but not one to a program of the host's. The filter keeps it so.
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    # Counted in the agent's user namespace: what the user runs elsewhere does not matter, and cannot be starved.
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    processes = MOST_PROCESSES if most == resource.RLIM_INFINITY else min(MOST_PROCESSES, most)
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    if address_space is not None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
