"""Which directories of the host can be worked in: a project's, and nothing that holds what is not a project's."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError
from belljar.sandbox.files import sockets
from belljar.sandbox.files.homes import homes_of_user
from belljar.sandbox.spec import Bind

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu")
"""The directories that programs are in."""

_SHARED: Final = ("/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "/proc", "/sys", "/home")  # noqa: S108 - no use of it
"""Directories that have something of everybody's in them, other programs' sockets for one."""

_KERNEL: Final = ("/dev", "/proc", "/sys")
_MEMORY: Final = "/dev/shm"  # noqa: S108 - no use of it


class ViewError(BelljarError):
    """What was asked for cannot be shown inside."""


def check_workdir(workdir: Path) -> None:
    """Refuse a working directory that holds what is no project's. Raises ViewError."""
    if not os.access(workdir, os.R_OK | os.X_OK) or not workdir.is_dir():
        raise ViewError(
            f"the working directory {workdir} is not there, no directory, or closed to you; name another with --workdir"
        )
    if any(home.is_relative_to(workdir) for home in homes_of_user(os.environ)):
        raise ViewError(
            f"the working directory {workdir} holds your home directory, and with it your keys and passwords;\n"
            "go to a project's directory, or name one with --workdir"
        )
    if any(Path(place).is_relative_to(workdir) for place in (*_SHARED, f"/run/user/{os.getuid()}")):
        raise ViewError(
            f"the working directory {workdir} holds files and sockets of all your programs; go to a directory in it,\n"
            "or name one with --workdir"
        )
    if any(map(workdir.is_relative_to, (*SYSTEM, *_KERNEL))) and not workdir.is_relative_to(_MEMORY):
        raise ViewError(f"the working directory {workdir} is part of the system; name another with --workdir")
    refuse_engines(workdir)


def check_scratch(place: Path, binds: Iterable[Bind]) -> None:
    """Refuse a place for an empty working directory where something else is shown. Raises ViewError."""
    if not place.is_absolute() or ".." in place.parts or place == Path("/"):
        raise ViewError(f"no working directory can be at {place}; name a place by its path from the root")
    if any(map(place.is_relative_to, _KERNEL)):
        raise ViewError(f"no working directory can be at {place}, which is the kernel's; name another place")
    for bind in binds:
        if place.is_relative_to(bind.target):
            raise ViewError(
                f"no working directory can be at {place}, since {bind.source} is shown at {bind.target};\n"
                "name another place for one of them"
            )


def refuse_engines(source: Path) -> None:
    """Refuse what is or holds the socket of a container engine. Raises ViewError."""
    real = source.resolve()
    if sockets.is_of_engine(real) or sockets.holds_engines(real):
        raise ViewError(
            f"{source} is or holds {sockets.ENGINE};\n"
            "show the sandbox something else, and open a port with host_ports instead"
        )
