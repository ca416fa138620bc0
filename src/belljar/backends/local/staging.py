"""The child that becomes the sandbox: it moves to new namespaces, seals them, and turns into bubblewrap.

Theory of operation
-------------------
The command line forks this child before it has threads. The child unshares a user and a network namespace (the
*outer* ones), and its parent says who it is in them. It arms the network namespace, hands the listeners to its parent,
and waits. Once the parent serves them it says go, and the child executes bubblewrap, which makes a *nested* user
namespace for the agent: the network namespace belongs to the outer one, so nothing inside can change it, not even as
root.

If the parent dies, the child reads the end of the channel, or is killed by the kernel. If the child fails, it writes
why to a pipe that closes by itself when bubblewrap takes over.

Root's agent is a stand-in that could not even enter root's directories. So the child, while it is still root, mounts
what is to be seen inside at a place that the stand-in can reach, in a mount namespace that ends with the sandbox; what
is writable is mounted so that the stand-in appears as the owner.
"""

import fcntl
import os
import resource
import socket
import termios
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from belljar.backends.local import bubblewrap
from belljar.backends.local.identity import Identity
from belljar.errors import BelljarError
from belljar.linux import mounts
from belljar.linux.descriptors import send_sockets
from belljar.linux.namespaces import CLONE_NEWNET, CLONE_NEWUSER, unshare
from belljar.linux.programs import find
from belljar.sandbox.arming import arm_here
from belljar.sandbox.spec import Bind, Spec
from belljar.sandbox.view import View

UNSHARED: Final = b"u"
MAPPED: Final = b"m"
GO: Final = b"g"

EXIT_FAILED: Final = 125

_STANDARD_ERROR: Final = 2
_STAGE: Final = Path("/mnt")  # any directory that is always there; only we see what we mount on it


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


def run(plan: Plan, channel: socket.socket, failures: int, status: int) -> NoReturn:
    """Become the sandbox. Bubblewrap writes to `status` how it goes."""
    try:
        _become(plan, channel, status)
    except BelljarError as error:
        os.write(failures, str(error).encode())
    except Exception as error:  # noqa: BLE001 - the parent tells the user
        os.write(failures, f"the sandbox could not be made: {type(error).__name__}: {error}".encode())
    finally:
        os._exit(EXIT_FAILED)


def _become(plan: Plan, channel: socket.socket, status: int) -> None:
    program = find("bwrap")
    os.setsid()
    source = _stage(plan) if plan.identity.is_stand_in else _as_it_is
    unshare(CLONE_NEWUSER | (CLONE_NEWNET if plan.sealed else 0))
    channel.send(UNSHARED)
    _wait_for(channel, MAPPED)
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    if plan.sealed:
        with closing(arm_here(udp=plan.udp)) as listeners:
            send_sockets(channel, listeners.groups())
    _connect_streams(plan.streams)
    _limit(plan.address_space)
    _wait_for(channel, GO)
    _keep_to_ourselves()
    os.set_inheritable(status, True)  # noqa: FBT003 - the standard library's interface
    arguments = bubblewrap.arguments(plan.spec, plan.view, plan.identity, source, status)
    os.execve(program, ["bwrap", *arguments], {})  # noqa: S606 - there is to be no shell


def _wait_for(channel: socket.socket, word: bytes) -> None:
    if channel.recv(1) != word:
        os._exit(EXIT_FAILED)  # the parent is gone, and there is nobody to tell


def _as_it_is(bind: Bind) -> Path:
    return bind.source


def _stage(plan: Plan) -> Callable[[Bind], Path]:
    """Mount what is seen inside where a stand-in can reach it; return where that is."""
    mounts.enter_private_mount_namespace()
    mounts.mount_tmpfs(_STAGE)
    staged: dict[Path, Path] = {}
    for bind in plan.view.binds:
        if any(bind.source.is_relative_to(source) for source in staged):
            continue
        place = staged[bind.source] = _STAGE / str(len(staged))
        if bind.source.is_dir():
            place.mkdir()
        else:
            place.touch()
        mounts.mount_copy(bind.source, place, _owners(bind.source, plan.identity) if bind.writable else None)

    def where(bind: Bind) -> Path:
        source, place = max(
            ((source, place) for source, place in staged.items() if bind.source.is_relative_to(source)),
            key=lambda pair: len(pair[0].parts),
        )
        return place / bind.source.relative_to(source)

    return where


def _owners(path: Path, identity: Identity) -> mounts.Owners:
    status = path.stat()
    return mounts.Owners(uid=(status.st_uid, identity.host_uid), gid=(status.st_gid, identity.host_gid))


def _connect_streams(streams: Sequence[int]) -> None:
    for target, stream in enumerate(streams):
        os.dup2(stream, target)
    if os.isatty(0) or os.isatty(1) or os.isatty(2):
        terminal = next(stream for stream in (0, 1, 2) if os.isatty(stream))
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


def _keep_to_ourselves() -> None:
    """Have every descriptor but the standard streams close by itself, whoever opened it and left it open."""
    for descriptor in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if descriptor > _STANDARD_ERROR:
            with suppress(OSError):  # the one that the list was read from
                os.set_inheritable(descriptor, False)  # noqa: FBT003 - the standard library's interface


def _limit(address_space: int | None) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if address_space is not None:
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
