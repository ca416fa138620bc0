"""A container is made and closed: sealed, or within a perimeter. Nothing of the image runs before."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from belljar.backends.containers import limits, mountcheck, users
from belljar.backends.containers.config import MEMORY, ContainerConfig, binds_of
from belljar.backends.containers.engine import libpod
from belljar.backends.containers.engine.images import Image
from belljar.backends.containers.engine.rights import is_rootless
from belljar.backends.containers.exec.firstprocess import is_here
from belljar.backends.containers.exec.inside import Inside
from belljar.backends.containers.inventory import OWNER, SANDBOX, Containers
from belljar.backends.containers.perimeter.bridges import Bridge
from belljar.backends.containers.perimeter.enclosure import Perimeter
from belljar.backends.containers.records import ContainerRecord, ContainerRecords
from belljar.backends.containers.sealing import Sealer
from belljar.backends.interface import GoneError
from belljar.gateway.listeners import NO_LISTENERS, Listeners
from belljar.linux.seccomp.profile import profile
from belljar.sandbox.files.view import NETWORK_FILES
from belljar.sandbox.spec import Command, Isolation, SandboxSpec
from belljar.sandbox.toolbox.model import Toolbox

_ENGINES_FILES: Final = {
    "docker": {Path("/etc/hostname"): b"belljar\n"},
    "podman": {Path("/etc/hostname"): b"belljar\n", Path("/run/.containerenv"): b""},
}
"""Files that engines show inside for root to write to, with room for as much as the host's disk has."""

_TELL_MOUNTS: Final = f"while IFS= read -r line; do printf '%s\\n' \"$line\"; done <{mountcheck.INFORMATION}"


class ContainerMaker:
    """What makes the containers of one owner."""

    def __init__(self, containers: Containers, records: ContainerRecords, toolbox: Toolbox, inside: Inside) -> None:
        self._containers, self._records, self._toolbox, self._inside = containers, records, toolbox, inside
        self._engine = containers.engine
        self._sealer = Sealer(
            self._engine, toolbox, records.meeting, containers.name("helper"), labels=containers.labels
        )
        self.perimeter = Perimeter(self._engine, {OWNER: containers.labels[OWNER]})

    def make(self, sandbox: str, spec: SandboxSpec, image: Image) -> Listeners:
        """Make a container, and return its doors. Raises SpecError, MachineError, and what engines do."""
        site = self.perimeter.choose() if spec.isolation is Isolation.PERIMETER else None
        files = site.files() if site else _network_files(spec)
        order = ContainerConfig(
            spec,
            image,
            users.choose(self._engine, spec, image),
            files=self._records.put_files(sandbox, {**files, **_ENGINES_FILES[self._engine.kind], **spec.files}),
            filter=self._filter(sandbox, spec),
            binds=binds_of(spec, self._engine.address),
        )
        toolbox, mounts = self._toolbox.hidden(), mountcheck.meant(order.binds)
        record = ContainerRecord(order.workdir, order.user.name, order.environment(), toolbox.place, mounts)
        self._records.write(sandbox, record)
        container = self._create(sandbox, order, toolbox, site)
        if order.has_scratch and not spec.read_only:
            users.make_directory(self._engine, self._containers.name(sandbox), order.user.name, spec.scratch)
        if site is not None:
            return self._enclose(sandbox, container, site, toolbox)
        self._engine.post(f"{self._containers.path(sandbox)}/start")
        found = self._containers.inspect(sandbox)
        self._check_mounts(sandbox, found)
        return self._close(sandbox, found) if spec.isolation is Isolation.SEALED else NO_LISTENERS

    def close_again(self, sandbox: str) -> Listeners:
        """Close a container that was made before, and return new doors. Raises GoneError, and as `make` does."""
        found = self._containers.inspect(sandbox)
        self._check_mounts(sandbox, found)
        return self._close(sandbox, found)

    def _create(self, sandbox: str, order: ContainerConfig, toolbox: Toolbox, site: Bridge | None) -> str:
        name = self._containers.name(sandbox)
        configuration = order.configuration(toolbox, {**self._containers.labels, SANDBOX: sandbox})
        limits.refuse_unavailable(self._engine, order.spec.limits)
        limits.leave_out_unavailable(self._engine, order.spec.limits, configuration)
        if site is not None:
            self.perimeter.build(name, site, configuration)
        if self._engine.kind == "podman" and is_rootless(self._engine):
            return libpod.create(self._engine, configuration, name)
        return str(self._engine.post("/containers/create", configuration, name=name)["Id"])

    def _close(self, sandbox: str, found: Any) -> Listeners:
        if not found["State"]["Running"]:
            raise GoneError(f"all processes of the sandbox {sandbox} have ended; destroy it")
        name = self._containers.name(sandbox)
        if name in (found["NetworkSettings"]["Networks"] or ()):
            return self.perimeter.enclose_again(name, found["Id"])
        return self._sealer.seal(found["Id"], found["State"]["Pid"])

    def _enclose(self, sandbox: str, container: str, site: Bridge, toolbox: Toolbox) -> Listeners:
        doors = self.perimeter.start(self._containers.name(sandbox), container, site, toolbox)
        try:
            self._check_mounts(sandbox, self._containers.inspect(sandbox))
        except BaseException:
            doors.close()
            raise
        return doors

    def _check_mounts(self, sandbox: str, found: Any) -> None:
        """Look at what a container was given of the host, unless that was done since it has started."""
        record, began = self._records.read(sandbox), str(found["State"]["StartedAt"])
        if record.mounts and record.began != began:
            mountcheck.check(self._mounts(sandbox, found), record.mounts, MEMORY, record.toolbox)
            self._records.write(sandbox, replace(record, began=began))

    def _mounts(self, sandbox: str, found: Any) -> str:
        """Return what the kernel tells of a container's mounts: from outside, or where we may not look, from inside."""
        container, pid = found["Id"], found["State"]["Pid"]
        with suppress(PermissionError):
            if is_here(container, pid):
                return mountcheck.told(Path(f"/proc/{pid}/mountinfo"))
        toolbox = self._inside.toolbox(sandbox)
        command = Command(tuple(toolbox.running("sh", "-c", _TELL_MOUNTS)), workdir=Path("/"))
        return self._inside.hear(sandbox, found, command).decode(errors="surrogateescape")

    def _filter(self, sandbox: str, spec: SandboxSpec) -> str:
        """Return the system call filter as the engine wants it: Docker itself, and Podman a file that has it."""
        text = json.dumps(profile(debugger=spec.debugger), separators=(",", ":"))
        return text if self._engine.kind == "docker" else str(self._records.put_filter(sandbox, text))


def _network_files(spec: SandboxSpec) -> dict[Path, bytes]:
    """Return how names are found, unless that is the engine's business."""
    files = NETWORK_FILES if spec.isolation is Isolation.SEALED else {}
    return {path: text.encode() for path, text in files.items()}
