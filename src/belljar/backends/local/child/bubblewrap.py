"""How bubblewrap is asked for a sandbox."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from belljar.backends.local.child.stage import Stage
from belljar.linux.seccomp import callfilter
from belljar.sandbox.files.view import View
from belljar.sandbox.spec import Bind
from belljar.sandbox.starting import hint_for, script

if TYPE_CHECKING:
    from belljar.backends.local.child.staging import Plan

_WALLS: Final = (
    "--unshare-user", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
    "--disable-userns", "--cap-drop", "ALL", "--clearenv",
)  # fmt: skip

SHELL: Final = "/bin/sh"

_COMMAND: Final = "/run/belljar/command"
"""What the shell becomes. Bubblewrap itself takes only so many words."""


def arguments(plan: "Plan", stage: Stage, status: int) -> list[str]:
    """Return bubblewrap's arguments. How it goes is written to the descriptor `status`."""
    command, identity = plan.command, plan.identity
    variables = {**plan.view.variables, **command.environment}
    hint = hint_for(command.arguments[0], command.environment)
    options = [
        *_WALLS,
        *("--uid", str(identity.uid), "--gid", str(identity.gid)),
        *("--seccomp", str(_readable(callfilter.program(debugger=plan.debugger))), "--json-status-fd", str(status)),
        *_view(plan.view, stage),
        *("--chdir", str(command.workdir)),
        *(word for name, value in variables.items() for word in ("--setenv", name, value)),
        *("--perms", "0444", "--ro-bind-data", str(_readable(script(command.arguments, hint))), _COMMAND),
    ]
    # Through a file of their own: the whole machine can read a process's arguments, and these have secrets among them.
    words = b"".join(os.fsencode(option) + b"\0" for option in options)
    return ["--args", str(_readable(words)), "--", SHELL, _COMMAND]


def _view(view: View, stage: Stage) -> Iterator[str]:
    source = stage.source
    for link, target in view.links.items():
        yield from ("--symlink", target, str(link))
    for bind in view.system:
        yield from ("--ro-bind", str(source(bind)), str(bind.target))
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    empty: dict[Path, Bind | Path] = {place: place for place in stage.in_memory}
    if view.scratch is not None:
        empty[view.scratch.target] = view.scratch
    for place, shown in sorted(empty.items(), key=lambda item: len(item[0].parts)):  # one may be in the other
        yield from ("--bind", str(source(shown)), str(place))
    for bind in (*view.tools, *view.around, *view.binds):
        yield from ("--bind" if bind.writable else "--ro-bind", str(source(bind)), str(bind.target))
    for path, content in stage.files.items():
        yield from ("--perms", "0444", "--ro-bind-data", str(_readable(content)), str(path))
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def _readable(content: bytes) -> int:
    """Return a descriptor from which bubblewrap reads a file's content."""
    descriptor = os.memfd_create("belljar", 0)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
