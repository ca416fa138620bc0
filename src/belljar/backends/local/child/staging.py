"""The child that becomes the sandbox: it moves to new namespaces, seals them, and turns into bubblewrap.

Theory of operation
-------------------
The command line forks this child before it has threads. The child unshares a user, a network and an IPC namespace (the
*outer* ones), and its parent says who it is in them, and puts it into its control groups. It arms the network
namespace, hands the listeners to its parent, and waits. Once the parent serves them it says go, and the child executes
bubblewrap, which makes a *nested* user namespace for the agent: the network namespace belongs to the outer one, so
nothing inside can change it, not even as root.

Before it waits, the child hands over to a sibling, the first process of a PID namespace around bubblewrap's. What an
agent can get hold of, bubblewrap's init included, can be told to survive; but not the end of the namespace around it.
So when that sibling has ended, by whatever cause, nothing that was inside is left. It mounts a /proc of that namespace:
bubblewrap looks itself up there, and in the caller's it would find somebody else, or nobody.

If the parent dies, the child reads the end of the channel, or is killed by the kernel. If the child fails, it writes
why to a pipe that closes by itself when bubblewrap takes over.

What is to be seen inside, the child mounts at a place of its own (`stage`), in a mount namespace that ends with the
sandbox, and bubblewrap takes it from there.
"""

import fcntl
import os
import resource
import signal
import socket
import stat
import termios
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

from belljar.backends.local.child import bubblewrap
from belljar.backends.local.child.lacks import Lack, StagingError, needed
from belljar.backends.local.child.stage import NO_MOUNTS, Stage, copies_of
from belljar.backends.local.identity import Identity
from belljar.errors import BelljarError
from belljar.linux import coredumps, sharedmemory
from belljar.linux.descriptors import send_sockets
from belljar.linux.files import mounts
from belljar.linux.namespaces import CLONE_NEWIPC, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS, unshare
from belljar.linux.processes import fork_sibling, get_signal_when_parent_dies, restore_signals
from belljar.linux.programs import ProgramMissingError, find
from belljar.sandbox import bounds
from belljar.sandbox.arming import arm_here
from belljar.sandbox.files.view import View
from belljar.sandbox.spec import Bind, Command

UNSHARED: Final = b"u"
MAPPED: Final = b"m"
COUNTED: Final = b"c"
GO: Final = b"g"

END_OF_LACK: Final = "\0"
"""Between what is lacking and the sentence about it, in what the child says of a failure."""

EXIT_FAILED: Final = 125

_OF_A_PROCESS: Final = {resource.RLIMIT_NOFILE: 65536, resource.RLIMIT_MEMLOCK: 64 << 20}
"""What each process may have at most: much for any work, little for the machine."""

_OF_A_USER: Final = {resource.RLIMIT_NPROC: 4096, resource.RLIMIT_MSGQUEUE: 819200, resource.RLIMIT_SIGPENDING: 16384}
"""What all of them may have together at most. They are counted in the agent's user namespace, so that what the user
runs elsewhere does not matter. They count as the user's as well, who is left a half of what there is."""

_STANDARD_ERROR: Final = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the child has to know."""

    command: Command
    """With its directory, and all its variables."""

    view: View
    identity: Identity
    streams: Sequence[int]
    """What becomes its standard input, output and error."""

    sealed: bool
    """Whether it gets a network namespace of its own."""

    debugger: bool = False
    memory: int = field(default_factory=bounds.here)
    """How much there is for whoever makes it; the sandbox itself has less."""

    address_space: int | None = None
    """A limit on the memory of each process, where there is no better one."""

    outlives_maker: bool = False
    """Whether it lives on without us; its command is then its first process."""

    in_foreground: bool | None = None
    """Whether the command may read from the terminal that is among its streams; None if there is no terminal."""


def check_proc() -> None:
    """Make sure that /proc shows us: we write to processes' files there by their numbers. Raises StagingError."""
    try:
        shown = Path("/proc/self").readlink()
    except OSError as error:
        raise StagingError(f"/proc is not there: {error.strerror}\nMount it: mount -t proc proc /proc") from error
    if str(shown) != str(os.getpid()):
        raise StagingError(
            "/proc is that of another PID namespace, and shows other processes under our numbers\n"
            "Mount our own: mount -t proc proc /proc (`unshare` does it with --mount-proc)"
        )


def run(
    plan: Plan, channel: socket.socket, failures: int, status: int, session: socket.socket | None = None
) -> NoReturn:
    """Become the sandbox. Bubblewrap writes to `status` how it goes; `session` is for one with a terminal."""
    try:
        _become(plan, channel, status, session)
    except BelljarError as error:
        lack = error.lack if isinstance(error, StagingError) else None
        os.write(failures, f"{lack or ''}{END_OF_LACK}{error}".encode())
    except Exception as error:  # noqa: BLE001 - the parent tells the user
        os.write(failures, f"{END_OF_LACK}the sandbox could not be made: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(EXIT_FAILED)


def _become(plan: Plan, channel: socket.socket, status: int, session: socket.socket | None) -> None:
    program = _bubblewrap()
    _prevent_core_dumps()
    os.setsid()
    if plan.identity.is_stand_in:
        os.setgroups([])  # root's groups would open to the stand-in what they open to root
    copies = _enter_stage(plan, Lack.ROOT) if plan.identity.is_stand_in else None
    _move_to_new_namespaces(CLONE_NEWUSER | CLONE_NEWIPC | CLONE_NEWUTS | (CLONE_NEWNET if plan.sealed else 0))
    channel.send(UNSHARED)
    _wait_for(channel, MAPPED)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    with suppress(PermissionError):  # Podman's filter keeps the call from everybody: a container's name may be seen
        socket.sethostname("belljar")
    sharedmemory.bound(bounds.shared(plan.memory))  # where the kernel does not let us, the control group has to do
    if copies is None:
        copies = _enter_stage(plan, Lack.MOUNTS)
    else:
        _enter_mount_namespace(Lack.MOUNTS)  # the one that root made is not ours to mount in
    listeners = arm_here() if plan.sealed else None
    _wait_for(channel, COUNTED)
    _hand_over_to_first_process(plan, session)
    if not plan.outlives_maker:
        get_signal_when_parent_dies(signal.SIGKILL)
    number = Path("/proc/self").readlink()  # who we are to our parent, in whose namespace this /proc is
    with needed(Lack.PROC, "the kernel mounts no /proc for a sandbox"):
        mounts.mount_proc()
    channel.send(os.fsencode(number))
    if listeners is not None:
        with closing(listeners):
            send_sockets(channel, listeners.groups())
    stage = Stage(plan.view, copies, plan.memory)  # while the parent goes on
    _connect(plan.streams)
    limit(plan.address_space)
    _wait_for(channel, GO)
    _keep_to_ourselves()
    os.set_inheritable(status, True)  # noqa: FBT003 - the standard library's interface
    life = "--as-pid-1" if plan.outlives_maker else "--die-with-parent"
    arguments = bubblewrap.arguments(plan, stage, status)
    restore_signals()
    os.execve(program, ["bwrap", life, *arguments], {})  # noqa: S606 - there is to be no shell


def _bubblewrap() -> str:
    try:
        return find("bwrap")
    except ProgramMissingError as error:
        raise StagingError(f"{error}\nMend it: {error.remedy('bubblewrap')}") from error


def _move_to_new_namespaces(kinds: int) -> None:
    with needed(Lack.NAMESPACES, "the kernel makes no user namespace for us"):
        unshare(kinds)


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
    from belljar.backends.local.child.leading import lead  # noqa: PLC0415 - our parent has imported it, if it is needed

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


def _enter_stage(plan: Plan, lack: Lack) -> dict[Bind, int]:
    _enter_mount_namespace(lack)
    return copies_of(plan.view, plan.identity)


def _enter_mount_namespace(lack: Lack) -> None:
    with needed(lack, NO_MOUNTS):
        mounts.enter_private_mount_namespace()


def _connect(streams: Sequence[int]) -> None:
    for target, stream in enumerate(streams):
        if stat.S_ISSOCK(os.fstat(stream).st_mode):
            raise StagingError("a socket of the host's network would be a way out (`sandbox.streams` carries them)")
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


def _prevent_core_dumps() -> None:
    try:
        coredumps.prevent()  # the filter keeps it so
    except coredumps.CoreDumpsError as error:
        raise StagingError(str(error)) from None


def limit(address_space: int | None) -> None:
    """Limit what this process, and what it becomes, may use."""
    for kinds, share in ((_OF_A_PROCESS, 1), (_OF_A_USER, 2)):
        for kind, most in kinds.items():
            found = resource.getrlimit(kind)
            soft, hard = (most if limit == resource.RLIM_INFINITY else min(limit // share, most) for limit in found)
            resource.setrlimit(kind, (soft, hard))
    if address_space is not None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
