"""What an engine is asked for: a sandbox as it is wanted becomes a container's configuration.

Nothing of the image runs when the container starts. Its first process is our own shell, with our own loader and
libraries, as whom the agent's commands run; and of the image's variables it has the names only: a loader takes orders
from some. The image's check of its own health is off, since the engine would run it before the container is sealed.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from belljar.backends.containers import limits
from belljar.backends.containers.engine.images import Image
from belljar.backends.containers.users import User
from belljar.backends.interface import SpecError
from belljar.sandbox import bounds
from belljar.sandbox.files.sockets import ENGINE
from belljar.sandbox.files.userfiles import user_files
from belljar.sandbox.files.workdirs import check_scratch
from belljar.sandbox.spec import SCRATCH, Bind, Isolation, SandboxSpec
from belljar.sandbox.toolbox.model import Toolbox

HOME: Final = "/home/belljar"
"""The home directory of a user for whom the image has none."""

_TMP: Final = "/tmp"  # noqa: S108 - the sandbox's own
MEMORY: Final = (_TMP, HOME, str(SCRATCH))
"""Places that may exist in memory only."""

_PARTS_OF_MEMORY: Final = 5
"""So that a sandbox that fills all such places leaves the machine some of its memory."""

_FOR_ALL: Final = "rw,nosuid,nodev,exec,mode=1777"


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """A container to make."""

    spec: SandboxSpec
    image: Image
    user: User
    """As whom commands run."""

    files: Mapping[Path, Path]
    """Read-only files, by where they are seen."""

    filter: str
    """The system call filter, or where it is."""

    binds: Sequence[Bind]
    """What of the host is seen."""

    @property
    def workdir(self) -> str:
        """Where commands run that do not say where."""
        return str(self.spec.workdir or (self.spec.scratch if self.has_scratch else self.image.workdir))

    @property
    def has_scratch(self) -> bool:
        """Whether the working directory is a new one."""
        return not self.spec.workdir and (self.spec.scratch != SCRATCH or not self.image.workdir)

    def environment(self) -> dict[str, str]:
        """Return the variables of every command."""
        ours = {"PATH": _PATH, "TMPDIR": _TMP, "BELLJAR": "1"}
        home = {} if self.user.has_home else {"HOME": HOME}
        return {**ours, **self.image.environment, **home, **self.spec.environment}

    def configuration(self, toolbox: Toolbox, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return what the engine is to make. Raises SpecError."""
        sleep = shlex.join(toolbox.running("sleep", "infinity"))
        return {
            "Image": self.image.id,
            "User": self.user.name,
            "Entrypoint": toolbox.running("sh", "-c", f"while :; do {sleep} & wait; done"),
            "Cmd": [],
            "Env": [f"{name}=" for name in self.image.environment if name != "PATH"],
            "WorkingDir": "/",
            "StopSignal": "SIGKILL",  # the first process of a container does not care for others
            "Hostname": "belljar",
            "Labels": dict(labels),
            "Healthcheck": {"Test": ["NONE"]},  # Podman does not say whether the image has one
            "HostConfig": self._host_configuration(toolbox),
        }

    def _host_configuration(self, toolbox: Toolbox) -> dict[str, Any]:
        sealed = self.spec.isolation is Isolation.SEALED
        # For the seal's sake, IPv6 is there, if only on the loopback interface; engines switch it off.
        settings = {"net.ipv6.conf.all.disable_ipv6": "0"} if sealed else {}
        return {
            **({"NetworkMode": "none"} if sealed else {}),
            **limits.of_sandbox(self.spec.limits),
            "Sysctls": {**settings, **limits.shared_memory()},
            "Binds": [_written(bind) for bind in (*self.binds, *self._own_binds(toolbox))],
            "Tmpfs": self._memory(),
            "Mounts": self._volumes(),
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges", f"seccomp={self.filter}"],
            "UsernsMode": self.user.namespace,
            "IpcMode": "private",
            "CgroupnsMode": "private",
            "ReadonlyRootfs": self.spec.read_only,
            "RestartPolicy": {"Name": "no"},
            "LogConfig": {"Type": "none"},  # an agent could write to its first process's output, and fill the disk
        }

    def _own_binds(self, toolbox: Toolbox) -> Iterator[Bind]:
        yield from (Bind(source, target, writable=False) for target, source in self.files.items())
        yield Bind(toolbox.directory, Path(toolbox.place), writable=False)

    def _memory(self) -> dict[str, str]:
        """Say which directories exist in memory only."""
        places = [_TMP]
        if self.has_scratch and self.spec.read_only:
            places.append(str(self.spec.scratch))
        if not self.user.has_home:
            places.append(HOME)
        size = bounds.machine() // _PARTS_OF_MEMORY
        return dict.fromkeys(places, f"{_FOR_ALL},size={size},nr_inodes={bounds.files(size)}")

    def _volumes(self) -> list[dict[str, Any]]:
        """Say which directories are volumes: empty, whatever the image has there, and removed with the container.

        There is none in a container whose files are read-only, since Docker lets nobody change a volume's owner there.
        """
        if not self.has_scratch or self.spec.read_only or self.spec.scratch == SCRATCH:
            return []
        return [{"Type": "volume", "Target": str(self.spec.scratch), "VolumeOptions": {"NoCopy": True}}]


def binds_of(spec: SandboxSpec, socket: Path) -> list[Bind]:
    """Return what of the host a sandbox is to see, which is not the engine's socket. Raises SpecError, ViewError."""
    shown = user_files(spec, spec.workdir)
    binds = [*shown.around, *shown.binds]
    if spec.workdir is None:
        check_scratch(spec.scratch, binds)
        if spec.scratch != SCRATCH and str(spec.scratch) in MEMORY:
            raise SpecError(f"no working directory can be at {spec.scratch}, which is in memory; name another place")
    _refuse_sockets((bind.source for bind in binds), socket)
    return binds


_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _refuse_sockets(sources: Iterable[Path], own: Path) -> None:
    """Refuse every socket, and what holds the engine's own, wherever that is."""
    for source in sources:
        if source.is_socket() or own.resolve().is_relative_to(source.resolve()):
            raise SpecError(
                f"{source} is a socket, or holds {ENGINE}; show the sandbox something else, and open a port with "
                "host_ports instead"
            )


def _written(bind: Bind) -> str:
    if ":" in f"{bind.source}{bind.target}":
        raise SpecError(f"{bind.source} has a colon in its path, which container engines cannot mount; rename it")
    return f"{bind.source}:{bind.target}:{'rw' if bind.writable else 'ro'}"
