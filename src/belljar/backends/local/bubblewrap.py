"""How bubblewrap is asked for a sandbox."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from belljar.backends.local.identity import Identity
from belljar.linux import seccomp
from belljar.sandbox.spec import Bind, Spec
from belljar.sandbox.starting import hint_for, script
from belljar.sandbox.view import View

_WALLS: Final = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--disable-userns", "--cap-drop", "ALL", "--hostname", "belljar",
    "--clearenv",
)  # fmt: skip

_SCRATCH: Final = {"/tmp": 4, "/var/tmp": 32, "/run": 64, "/dev/shm": 16}  # noqa: S108 - the sandbox's own
"""Places that are empty and vanish with the sandbox, and which part of the machine's memory they may fill.

Together with the home directory's part that is less than a half: nobody can be killed to get such memory back.
"""

_HOME_PART: Final = 8

SHELL: Final = "/bin/sh"

_COMMAND: Final = "/run/belljar/command"
"""What the shell becomes. Bubblewrap itself takes only so many words."""


def arguments(spec: Spec, view: View, identity: Identity, source: Callable[[Bind], Path], status: int) -> list[str]:
    """Return bubblewrap's arguments.

    `source` tells where the host's part of a bind is found when bubblewrap looks for it; how it goes is written to the
    descriptor `status`.
    """
    hint = hint_for(spec.command[0], spec.environment)
    options = [
        *_WALLS,
        *("--uid", str(identity.uid), "--gid", str(identity.gid)),
        *("--seccomp", str(_readable(seccomp.program(debugger=spec.debugger))), "--json-status-fd", str(status)),
        *_view(view, source),
        *("--chdir", str(spec.workdir)),
        *(word for name, value in spec.environment.items() for word in ("--setenv", name, value)),
        *("--perms", "0444", "--ro-bind-data", str(_readable(script(spec.command, hint))), _COMMAND),
    ]
    # Through a file of their own: the whole machine can read a process's arguments, and these have secrets among them.
    words = b"".join(os.fsencode(option) + b"\0" for option in options)
    return ["--args", str(_readable(words)), "--", SHELL, _COMMAND]


def _view(view: View, source: Callable[[Bind], Path]) -> Iterator[str]:
    for link, target in view.links.items():
        yield from ("--symlink", target, str(link))
    for path in view.system:
        yield from ("--ro-bind", str(path), str(path))
    yield from ("--proc", "/proc", "--dev", "/dev")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for place, part in _SCRATCH.items():
        yield from ("--perms", "1777", "--size", str(memory // part), "--tmpfs", place)
    yield from ("--perms", "0700", "--size", str(memory // _HOME_PART), "--tmpfs", str(view.home))
    for bind in view.binds:
        yield from ("--bind" if bind.writable else "--ro-bind", str(source(bind)), str(bind.target))
    for path, content in view.files.items():
        yield from ("--perms", "0444", "--ro-bind-data", str(_readable(content)), str(path))
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _readable(content: bytes) -> int:
    """Return a descriptor from which bubblewrap reads a file's content."""
    descriptor = os.memfd_create("belljar", 0)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
