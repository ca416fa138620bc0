"""What is around us, and how what it withholds can be had: in a container, or on a machine that forbids namespaces.

The kernel says no in one word, whoever has told it to. Whom to ask, and for what, is told from what can be seen of the
surroundings. docs/in-containers.md says the same at length.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from belljar.backends.local.child.lacks import Lack

SETTINGS: Final = {
    "kernel.apparmor_restrict_unprivileged_userns": "0",
    "kernel.unprivileged_userns_clone": "1",
}
"""Settings by which distributions keep user namespaces from ordinary users, and the values that allow them."""

MORE_NAMESPACES: Final = "sudo sysctl -w user.max_user_namespaces=10000"

_PAGE: Final = "docs/in-containers.md tells more."


class SurroundingEngine(NamedTuple):
    """What runs a container, and what it is told so that sandboxes can be made inside."""

    name: str
    user: str
    """What has Belljar run as an ordinary user."""

    filter: str
    """What takes away the engine's system call filter."""

    profile: str
    """What takes away its AppArmor profile."""

    proc: str
    """What has nothing of /proc covered."""

    filters_too_much: bool = True
    """Whether its usual filter leaves too little."""


_DOCKER: Final = SurroundingEngine(
    name="Docker",
    user="--user 1000:1000",
    filter="--security-opt seccomp=unconfined",
    profile="--security-opt apparmor=unconfined",
    proc="--security-opt systempaths=unconfined",
)
_PODMAN: Final = _DOCKER._replace(name="Podman", proc="--security-opt 'unmask=/proc/*'", filters_too_much=False)
_KUBERNETES: Final = SurroundingEngine(
    name="Kubernetes",
    user="runAsUser: 1000",
    filter="seccompProfile: {type: Unconfined}",
    profile="appArmorProfile: {type: Unconfined}",
    proc="procMount: Unmasked (in a pod with hostUsers: false)",
)


def engine() -> SurroundingEngine | None:
    """Return what runs the container that we are in; None if there is none, or none that we know."""
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return _KUBERNETES
    if Path("/run/.containerenv").exists():
        return _PODMAN
    return _DOCKER if Path("/.dockerenv").exists() else None


def is_filtered() -> bool:
    """Tell whether a system call filter is in force around us."""
    with suppress(OSError):
        return "\nSeccomp:\t2\n" in Path("/proc/self/status").read_text(errors="replace")
    return False


def profile() -> str | None:
    """Return the AppArmor profile that we are confined by."""
    with suppress(OSError):
        name = Path("/proc/self/attr/current").read_text(errors="replace").strip(" \n\0")
        return None if name in ("", "unconfined") else name
    return None


def most_namespaces() -> str:
    """Return how many user namespaces there may be."""
    try:
        return Path("/proc/sys/user/max_user_namespaces").read_text().strip()
    except OSError as error:
        return f"an unknown number ({error.strerror})"


def closed_settings() -> Iterator[tuple[str, str]]:
    """Yield the settings that keep user namespaces from ordinary users, and the commands that change that."""
    for name, value in SETTINGS.items():
        with suppress(OSError):
            if (Path("/proc/sys") / name.replace(".", "/")).read_text().strip() != value:
                yield name, f"sudo sysctl -w {name}={value}"


def remedy(lack: Lack) -> str:
    """Return who may withhold something, and what gives it."""
    if os.environ.get("BELLJAR"):
        return "This is a sandbox, and no sandbox can be made in another."
    around = engine()
    hints = [_with_flag(hint, flag) for hint, flag in _hints(lack, around)]
    if not hints:
        return "`belljar doctor` looks for what sandboxes need."
    return "\n".join((*hints, _in_all(around)))


def _hints(lack: Lack, around: SurroundingEngine | None) -> Iterator[tuple[str, str | None]]:
    """Yield sentences, with what a container must be given."""
    if lack is Lack.ROOT:
        hint = "A sandbox of root's takes CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID. Run Belljar as an ordinary user"
        yield hint, around and around.user
    elif lack is Lack.PROC:
        hint = "Parts of /proc are covered here, so that there is no whole one for a sandbox. Have them uncovered"
        yield hint, around and around.proc
    else:
        if most_namespaces() == "0":
            yield "There may be no user namespaces here. Allow them", MORE_NAMESPACES
        if os.geteuid() != 0:
            for name, command in closed_settings():
                yield f"{name} keeps user namespaces from ordinary users. Allow them", command
        if is_filtered():
            yield "A system call filter is in force here, and may forbid it. Take it away", around and around.filter
        if confined_by := profile():
            yield (
                f"The AppArmor profile {confined_by} is in force, and may forbid it. Take it away",
                around and around.profile,
            )


def _with_flag(hint: str, flag: str | None) -> str:
    return f"{hint}: {flag}" if flag else f"{hint}."


def _in_all(around: SurroundingEngine | None) -> str:
    if around is None:
        return _PAGE
    flags = [around.user, around.proc]
    flags += [around.filter] if around.filters_too_much else []
    flags += [around.profile] if profile() else []
    return f"In all, a {around.name} container needs {', '.join(flags)}. {_PAGE}"
