"""A sandbox is made that lives by itself: sealed, recorded, and with nothing in it but a process that waits.

That process is the shell as the PID namespace's first: no signal from inside can end it, and it reaps what nobody
waits for. It begins by waiting for a word from its maker, who has recorded it by then. So a sandbox that nobody knows
of ends by itself, whenever its maker dies.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple, Self

from belljar.backends.interface import LostError, MachineError, SpecError
from belljar.backends.local.child.lacks import StagingError
from belljar.backends.local.child.stage import FILES, SPARE
from belljar.backends.local.child.staging import Plan, check_proc
from belljar.backends.local.identity import account_files, choose
from belljar.backends.local.launching import Launched, LaunchError, bubblewrap_failed, launch
from belljar.backends.local.limiting import UnlimitableError, default_group, enforce
from belljar.backends.local.records import Record, Records
from belljar.gateway.listeners import Listeners
from belljar.linux.cgroups.freezing import make_freezable
from belljar.linux.cgroups.limits import remove_soon
from belljar.linux.lives import Life
from belljar.sandbox.files.view import View, view_of, with_scratch
from belljar.sandbox.files.workdirs import ViewError
from belljar.sandbox.spec import Command, Isolation, ResourceLimits, SandboxSpec

_WAIT: Final = (
    "/bin/sh",
    "-c",
    "echo; read -r word && exec </dev/null >/dev/null 2>&1 && while :; do sleep infinity & wait; done",
)
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def make(records: Records, sandbox: str, spec: SandboxSpec) -> Listeners:
    """Make a sandbox. Raises SpecError, MachineError."""
    if spec.image is not None:
        raise SpecError("the local backend runs no images; leave the image out, or choose another backend")
    if spec.isolation is not Isolation.SEALED:
        raise SpecError("the local backend makes sealed sandboxes only; choose another backend")
    for shown in (spec.workdir, *(bind.source for bind in spec.binds)):
        if shown is not None and records.overlaps(shown):
            raise SpecError(f"{shown} has to do with the state of all sandboxes, and no agent may see that")
    directory = records.begin(sandbox)
    try:
        check_proc()
        return _Making(records, sandbox, spec, directory).make()
    except (ViewError, UnlimitableError) as error:
        records.remove(sandbox)
        raise SpecError(str(error)) from error
    except (LaunchError, StagingError, OSError) as error:
        records.remove(sandbox)
        raise MachineError(str(error)) from error


class _Making:
    def __init__(self, records: Records, sandbox: str, spec: SandboxSpec, directory: Path) -> None:
        self._records, self._sandbox, self._spec = records, sandbox, spec
        self._home = Path(os.environ.get("HOME") or "/nonexistent")
        self._identity = choose()
        self._source = spec.workdir or directory / "work"
        self._workdir = spec.workdir or spec.scratch
        if spec.workdir is None:
            self._source.mkdir(mode=0o700)
            (self._source / FILES).mkdir(mode=0o700)
            (self._source / SPARE).mkdir(mode=0o700)

    def make(self) -> Listeners:
        spec = self._spec
        view = view_of(spec, self._source, self._home, account_files(self._identity, self._home))
        if spec.workdir is None:
            view = with_scratch(view, self._source, spec.scratch)
        groups = _Groups.make(spec.limits, f"{self._records.label}-{self._sandbox}")
        try:
            return self._launch(view, groups)
        except BaseException:
            remove_soon(groups.directories)
            raise

    def _launch(self, view: View, groups: "_Groups") -> Listeners:
        asked, asking = os.pipe()
        ready, told = os.pipe()
        last_words = os.memfd_create("belljar")
        plan = Plan(
            Command(_WAIT, {"PATH": _PATH}, self._workdir),
            view,
            self._identity,
            (asked, told, last_words),
            sealed=True,
            debugger=self._spec.debugger,
            address_space=groups.address_space,
            outlives_maker=True,
        )
        launched = launch(plan)
        os.close(asked)
        os.close(told)
        try:
            launched.identify()
            launched.join(groups.directories)
            launched.settle()
            launched.go()
            _wait_for_first_process(ready, last_words)
            self._records.write(self._sandbox, self._record(launched, view, groups))
            os.write(asking, b"\n")
        except BaseException:
            launched.kill()
            raise
        launched.close()
        if launched.listeners is None:
            raise LostError("the sandbox has no doors")
        return launched.listeners

    def _record(self, launched: Launched, view: View, groups: "_Groups") -> Record:
        around, init = launched.processes()
        environment = {"PATH": _PATH, "HOME": str(self._home), "TMPDIR": "/tmp", "BELLJAR": "1"}  # noqa: S108 - inside
        return Record(
            around=Life.of(around),
            init=Life.of(init),
            network=Path(f"/proc/{init}/ns/net").stat().st_ino,
            is_stand_in=self._identity.is_stand_in,
            workdir=str(self._workdir),
            environment={**environment, **view.variables, **self._spec.environment},
            debugger=self._spec.debugger,
            address_space=groups.address_space,
            groups=sorted(map(str, groups.directories)),
            freezer=str(groups.freezer) if groups.freezer is not None else None,
        )


class _Groups(NamedTuple):
    """The control groups of a sandbox."""

    directories: set[Path]
    freezer: Path | None
    address_space: int | None

    @classmethod
    def make(cls, limits: ResourceLimits, name: str) -> Self:
        enforcement = enforce(limits, name)
        group = enforcement.group or (default_group(name) if enforcement.address_space is None else None)
        directories = set() if group is None else group.directories
        freezer = make_freezable(name, directories)
        return cls(directories | ({freezer} if freezer else set()), freezer, enforcement.address_space)


def _wait_for_first_process(ready: int, last_words: int) -> None:
    if not os.read(ready, 1):
        why = os.pread(last_words, 4096, 0).decode(errors="replace").strip()
        raise bubblewrap_failed(f": {why}")
