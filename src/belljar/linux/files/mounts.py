"""Mounts by descriptor: a copy of a directory tree in which one owner is shown as another.

Such a copy (an idmapped mount) lets a process work on files as if they were its own, and on the disk they stay what
they were. It takes root, Linux 5.12, and a file system that can do it: ext4, xfs and btrfs can, and tmpfs since 6.3.
"""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from belljar.linux.namespaces import CLONE_NEWNS, CLONE_NEWUSER, unshare
from belljar.linux.seccomp.syscalls import NUMBERS

_AT_EMPTY_PATH: Final = 0x1000
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_OPEN_TREE_CLOEXEC: Final = os.O_CLOEXEC
_MOVE_MOUNT_F_EMPTY_PATH: Final = 4
_MOUNT_ATTR_IDMAP: Final = 0x00100000
_MS_PRIVATE: Final = 1 << 18
_MS_REC: Final = 1 << 14
_MS_RDONLY: Final = 1
_MS_BIND: Final = 1 << 12
_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_NOEXEC: Final = 8
_AT_FDCWD: Final = -100
# In this order: an escaped backslash is no beginning of another escape.
_ESCAPED: Final = {b"\\040": b" ", b"\\011": b"\t", b"\\012": b"\n", b"\\043": b"#", b"\\134": b"\\"}

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def enter_private_mount_namespace() -> None:
    """Move the process to a mount namespace of its own: what it mounts is seen by nobody else, and ends with it."""
    unshare(CLONE_NEWNS)
    _check(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_PRIVATE | _MS_REC), None), "/")


def mount_tmpfs(target: Path, options: str = "mode=0755") -> None:
    """Mount an empty file system in memory; by default, everybody can look into it."""
    _mount("tmpfs", target, _MS_NOSUID | _MS_NODEV, options)


def mount_overlay(target: Path, *lower: str) -> None:
    """Mount directories, by their paths, on top of each other and read-only. Raises OSError."""
    _mount("overlay", target, _MS_NOSUID | _MS_NODEV | _MS_RDONLY, f"lowerdir={':'.join(lower)}")


def mount_writable_overlay(target: Path, lower: Path, upper: Path, spare: Path) -> None:
    """Mount a directory on top of another, writable, with one to spare in the same file system. Raises OSError."""
    layers = f"lowerdir={lower},upperdir={upper},workdir={spare},userxattr"
    _mount("overlay", target, _MS_NOSUID | _MS_NODEV, layers)


def bind(source: str, target: Path) -> None:
    """Show a file at another place as well. Raises OSError."""
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_MS_BIND), None), str(target))


def mount_points() -> set[str]:
    """Return where something is mounted."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return {os.fsdecode(_unescaped(line.split(b" ", 5)[4])) for line in lines}


def mount_proc() -> None:
    """Mount a /proc that shows the PID namespace of this process, over the one that is there. Raises OSError."""
    flags = ctypes.c_ulong(_MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _check(_libc.mount(b"proc", b"/proc", b"proc", flags, None), "/proc")


def copy_of(source: Path) -> int:
    """Return a descriptor of a second mount of a directory tree, or a file, that is not yet anywhere.

    Raises OSError, also if the path leads through a symbolic link: whoever can make one could have it lead anywhere.
    """
    named = os.open(source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if stat.S_ISLNK(os.fstat(named).st_mode) or Path(f"/proc/self/fd/{named}").readlink() != source:
            raise OSError(errno.ELOOP, "there is a symbolic link on the way", str(source))
        flags = ctypes.c_uint(_OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_RECURSIVE | _AT_EMPTY_PATH)
        return _call("open_tree", named, b"", flags, about=source)
    finally:
        os.close(named)


def show_as(tree: int, namespace: int) -> None:
    """Have a mount that is not yet anywhere show other owners, as a user namespace describes. Raises OSError."""
    wanted = _MountAttributes(_MOUNT_ATTR_IDMAP, 0, 0, namespace)
    size, how = ctypes.c_size_t(ctypes.sizeof(wanted)), ctypes.c_uint(_AT_EMPTY_PATH | _AT_RECURSIVE)
    _call("mount_setattr", tree, b"", how, ctypes.byref(wanted), size, about=Path())


def attach(tree: int, target: Path) -> None:
    """Put a mount somewhere. Raises OSError."""
    _call("move_mount", tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH, about=target)


class Owners(NamedTuple):
    """Whose files are shown as whose: pairs of ids on the disk and ids of the process."""

    uid: tuple[int, int]
    gid: tuple[int, int]


@contextmanager
def user_namespace(owners: Owners) -> Iterator[int]:
    """Make the user namespace that describes a mapping, for `show_as`."""
    ready, told = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        try:
            unshare(CLONE_NEWUSER)
            os.write(ready[1], b"!")
            os.close(told[1])
            os.read(told[0], 1)
        finally:
            os._exit(0)
    try:
        os.close(ready[1])
        os.read(ready[0], 1)
        Path(f"/proc/{child}/uid_map").write_text(f"{owners.uid[0]} {owners.uid[1]} 1")
        Path(f"/proc/{child}/gid_map").write_text(f"{owners.gid[0]} {owners.gid[1]} 1")
        namespace = os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for end in (ready[0], *told):
            os.close(end)
        os.waitpid(child, 0)
    try:
        yield namespace
    finally:
        os.close(namespace)


def _mount(kind: str, target: Path, flags: int, options: str) -> None:
    done = _libc.mount(kind.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(done, str(target))


def _unescaped(path: bytes) -> bytes:
    if b"\\" not in path:
        return path
    for escape, character in _ESCAPED.items():
        path = path.replace(escape, character)
    return path


def _call(name: str, *arguments: object, about: Path) -> int:
    number = getattr(NUMBERS[name], os.uname().machine)
    return _check(_libc.syscall(number, *arguments), str(about))


def _check(result: int, about: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about)
    return result
