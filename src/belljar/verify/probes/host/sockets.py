"""What leads to somebody else without a network: unix sockets, FIFOs and devices in the file system, and beside it."""

import os
import socket
import stat
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from belljar.verify.probes import places
from belljar.verify.probes.host.planted import HOME, TOOLS_FIFO, TOOLS_SOCKET
from belljar.verify.probes.kit import Finding, Mark, inside

_DAEMONS: Final = (
    "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
    "/run/dbus/system_bus_socket", "/run/systemd/private", "/run/systemd/journal/socket", "/run/nscd/socket",
    "/run/snapd.socket", "/var/lib/lxd/unix.socket",
)  # fmt: skip
_ABSTRACT: Final = (places.ABSTRACT_SOCKET, "\0/tmp/.X11-unix/X0", "\0/tmp/dbus-verify", "\0snapd")

_KERNEL: Final = ("/proc", "/sys")
_SYSTEM: Final = ("/etc", "/gnu", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/opt", "/usr")
_MOST: Final = 30_000
"""How many files of the system are looked at, those that are high up first: there can be a million."""

_KINDS: Final = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)


@inside(34, "visible-sockets", "unix sockets, FIFOs and devices anywhere in the file system")
def visible_sockets(mark: Mark) -> Finding:
    """Find all that work. In the system's directories and the user's tools some may be seen, but they are dead."""
    home = Path.cwd().parent / HOME
    planted = [str(home / place) for place in (TOOLS_SOCKET, TOOLS_FIFO)]
    own = _specials(_files_in("/", left_out=(*_KERNEL, *_SYSTEM)))
    system = _specials(islice(_files_in(*_SYSTEM), _MOST))
    sockets = [path for path in own if Path(path).is_socket() and path not in planted]
    working = [path for path in (*own, *system, *planted, *_DAEMONS, *mark.scene.sockets) if _works(path)]
    found = sorted({*sockets, *working})
    dead = sum(map(os.path.exists, planted))
    return Finding(not found, f"found: {', '.join(found)}" if found else f"none, but for {dead} dead ones")


def _files_in(*directories: str, left_out: Collection[str] = ()) -> Iterator["os.DirEntry[str]"]:
    """Yield whatever is no directory, that which is high up first."""
    waiting = deque(directories)
    while waiting:
        with suppress(OSError), os.scandir(waiting.popleft()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry
                elif entry.path not in left_out:
                    waiting.append(entry.path)


def _specials(entries: Iterable["os.DirEntry[str]"]) -> list[str]:
    return [entry.path for entry in entries if not entry.is_file(follow_symlinks=False) and not entry.is_symlink()]


def _works(path: str) -> bool:
    """Tell whether there is somebody, or something, at the other end."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - of a text, as the kernel takes it
        if stat.S_ISSOCK(mode):
            return _is_listened_at(Path(path))
        is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
        if stat.S_ISFIFO(mode) or (is_device and not path.startswith("/dev/")):  # those are judged by themselves
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            return True
    except OSError:
        pass
    return False


def _is_listened_at(path: Path) -> bool:
    """Connect by a short name: where a socket is may be too long for an address."""
    directory = os.open(path.parent, os.O_PATH)
    try:
        return _connects(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def _connects(address: str) -> bool:
    for kind in _KINDS:
        with socket.socket(socket.AF_UNIX, kind) as sock:
            try:
                sock.connect(address)
            except OSError:
                continue
            return True
    return False


@inside(34, "abstract-sockets", "unix sockets that have no place in the file system")
def abstract_sockets(mark: Mark) -> Finding:
    answering = [path for path in (*_ABSTRACT, places.MACHINES_SOCKET.format(run=mark.scene.run)) if _connects(path)]
    return Finding(not answering, f"connected: {answering}" if answering else "none answers")
