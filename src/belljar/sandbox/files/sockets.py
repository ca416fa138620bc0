"""Unix sockets that no sandbox may reach: whoever can talk there commands this machine, or every sandbox on it.

A container engine listens at several sockets (``containerd.sock.ttrpc``, ``debug.sock``, ``metrics.sock``), which have
other names in other versions. So all that an engine has at run time is refused: every entry of a runtime directory that
is called after an engine, every socket that is, wherever it lies, and other names of the same sockets.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from belljar.policy.services import Service, ServiceKind

_RUNTIME: Final = Path("/run")
_OF_USERS: Final = _RUNTIME / "user"
_ENGINE: Final = re.compile(
    r"(?:snap\.|cri-)?(?:balena|buildkit|containerd|containers|cri-?o|docker|incus|k0s|k3s|kube|libpod|lxc|lxd|moby|"
    r"nerdctl|podman|rke2)",
    re.ASCII,
)
ENGINE: Final = "the socket of a container engine, and whoever can talk to it has this machine"

_ELSEWHERE: Final = tuple(
    map(Path, ("/var/lib/incus", "/var/lib/kubelet", "/var/lib/lxd", "/var/snap/docker", "/var/snap/lxd"))
)
"""Directories of engines that are in no runtime directory."""


def commanding(services: Iterable[Service], states: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the place in a policy, and what is wrong, for each service at the socket of an engine or a server.

    A server's state is a directory that only it writes to; its socket is there.
    """
    kept = [state.resolve() for state in states]
    for service in services:
        if service.kind is not ServiceKind.UNIX_SOCKET:
            continue
        try:
            path = Path(os.path.realpath(service.target))
            if any(map(path.is_relative_to, kept)):
                problem = "is a server's own directory, and who is let in there commands it; lead it elsewhere"
            elif is_of_engine(path):
                problem = f"is {ENGINE}; lead it elsewhere"
            else:
                continue
        except OSError as error:
            problem = f"cannot be followed ({error.strerror}); name the path that it leads to"
        yield f"services.{service.name}.socket", f"{service.target} {problem}"


def is_of_engine(path: Path) -> bool:
    """Return whether a path without links is in a directory of a container engine, or is the socket of one."""
    if any(map(_ENGINE.match, _runtime_entries(path))) or any(map(path.is_relative_to, _ELSEWHERE)):
        return True
    if ".sock" in path.name and _ENGINE.match(path.name):
        return True
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISSOCK(status.st_mode) and (status.st_dev, status.st_ino) in _engine_sockets()


def holds_engines(path: Path) -> bool:
    """Return whether a directory has directories of container engines in it, or will when an engine is started."""
    runtime = _runtime_directories()
    return any(place.is_relative_to(path) for place in (*runtime, *filter(os.path.lexists, _ELSEWHERE)))


def _runtime_directories() -> list[Path]:
    found = [_RUNTIME, *_OF_USERS.glob("*"), _OF_USERS / str(os.getuid())]
    if (own := os.environ.get("XDG_RUNTIME_DIR", "")).startswith("/"):
        found.append(Path(os.path.realpath(own)))
    return found


def _runtime_entries(path: Path) -> Iterator[str]:
    """Yield the entry of each runtime directory that a path is in."""
    if path.is_relative_to(_OF_USERS):  # also those of users who are not logged in
        yield from path.relative_to(_OF_USERS).parts[1:2]
    for place in _runtime_directories():
        if path.is_relative_to(place):
            yield from path.relative_to(place).parts[:1]


def _engine_sockets() -> set[tuple[int, int]]:
    """Return device and inode of each socket that the engines of this machine have."""
    found: set[tuple[int, int]] = set()
    for place in _runtime_directories():
        for entry in filter(_ENGINE.match, _names(place)):
            for directory, _, files in os.walk(place / entry):
                found.update(_sockets(os.path.join(directory, name) for name in files))  # noqa: PTH118 - of os.walk
            found.update(_sockets([place / entry]))
    return found


def _names(directory: Path) -> list[str]:
    try:
        return os.listdir(directory)  # noqa: PTH208 - names are wanted
    except OSError:
        return []


def _sockets(paths: Iterable[str | Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            status = os.stat(path)  # noqa: PTH116 - of names, too
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            yield status.st_dev, status.st_ino
