"""A container's network namespace is armed from outside: by entering it where we may, or by a helper container.

Whoever is root on the engine's machine enters the namespace in a thread, which takes some milliseconds. Everybody else
has the engine start a helper (`belljar.backends.containers.helper`) in the namespace, which passes the doors out
through a unix socket: it takes no rights on the host but those of using the engine.
"""

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from belljar.backends.containers import limits
from belljar.backends.containers.engine.client import Engine, EngineError
from belljar.backends.containers.engine.images import ensure_helper
from belljar.backends.containers.helper import DOOR, OK, main
from belljar.backends.interface import MachineError
from belljar.errors import BelljarError
from belljar.gateway.listeners import Listeners
from belljar.linux.descriptors import is_readable, receive_sockets
from belljar.linux.namespaces import NetworkNamespace
from belljar.sandbox.arming import arm_here
from belljar.sandbox.toolbox.model import MODULES, Toolbox

_PROGRAM: Final = f"import sys; sys.path.insert(0, {str(MODULES)!r}); from {main.__module__} import main; main()"
_SECONDS: Final = 60.0
_SECONDS_BETWEEN_LOOKS: Final = 0.25
_MOST_BYTES: Final = 65536


class Sealer:
    """What seals the containers of one engine."""

    def __init__(self, engine: Engine, toolbox: Toolbox, meeting: Path, name: str, labels: Mapping[str, str]) -> None:
        """Have a directory for sockets to meet helpers at; and how their names begin, and labels for them."""
        self._engine, self._toolbox, self._meeting = engine, toolbox, meeting
        self._name, self._labels = name, labels

    def seal(self, container: str, pid: int) -> Listeners:
        """Arm the network namespace of a running container, try it, and return its doors. Raises MachineError."""
        try:
            namespace = _namespace(container, pid)
        except OSError:
            return self._with_helper(container)
        with namespace:
            try:
                return namespace.run(arm_here)
            except PermissionError:
                return self._with_helper(container)
            except BelljarError as error:
                raise MachineError(str(error)) from error

    def _with_helper(self, container: str) -> Listeners:
        image = ensure_helper(self._engine, self._toolbox)
        with self._door() as (door, directory):
            order, name = self._order(container, image, directory), f"{self._name}-{secrets.token_hex(6)}"
            helper = self._engine.post("/containers/create", order, name=name)["Id"]
            try:
                self._engine.post(f"/containers/{helper}/start")
                return self._receive(door, helper)
            except BaseException as error:  # otherwise it has ended, and the engine takes it away
                with suppress(EngineError):
                    self._engine.delete(f"/containers/{helper}", force=True, v=True)
                if isinstance(error, EngineError):
                    raise MachineError(f"{self._engine.kind} could not run a helper: {error}") from error
                raise

    def _order(self, container: str, image: str, directory: Path) -> dict[str, object]:
        return {
            "Image": image,
            "User": "0:0",
            "Entrypoint": [self._toolbox.python, "-I", "-S", "-B", "-c", _PROGRAM],
            "Cmd": [],
            "Labels": dict(self._labels),
            "HostConfig": {
                "NetworkMode": f"container:{container}",
                "UsernsMode": self._user_namespace(container),
                "Binds": [f"{directory}:{Path(DOOR).parent}"],
                "CapDrop": ["ALL"],
                "CapAdd": ["NET_ADMIN", "NET_RAW"],
                "SecurityOpt": ["no-new-privileges", "label=disable"],
                "ReadonlyRootfs": True,
                **limits.every_container(),
                "LogConfig": {"Type": "none"},
                "AutoRemove": True,
            },
        }

    def _user_namespace(self, container: str) -> str:
        """Say where a helper's rights have to count: in the user namespace of the container, if it has its own."""
        own = self._engine.get(f"/containers/{container}/json")["HostConfig"].get("UsernsMode") or "host"
        return "" if own == "host" else f"container:{container}"

    @contextmanager
    def _door(self) -> Iterator[tuple[socket.socket, Path]]:
        """Open a socket that a helper can connect to, and nobody else: the directory around it is closed to others.

        A helper is root, but root without a right to what belongs to others.
        """
        with tempfile.TemporaryDirectory(dir=self._meeting) as name:
            directory = Path(name)
            directory.chmod(0o755)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
                door.bind(str(directory / Path(DOOR).name))
                (directory / Path(DOOR).name).chmod(0o666)
                door.listen(1)
                yield door, directory

    def _receive(self, door: socket.socket, helper: str) -> Listeners:
        for _ in range(int(_SECONDS / _SECONDS_BETWEEN_LOOKS)):
            if is_readable(door.fileno(), _SECONDS_BETWEEN_LOOKS):
                connection, _ = door.accept()
                with connection:
                    return _doors(connection)
            if not self._engine.get(f"/containers/{helper}/json")["State"]["Running"]:
                break
        raise MachineError("a helper container ended without a word; does the engine run on this machine?")


def _namespace(container: str, pid: int) -> NetworkNamespace:
    """Hold the network namespace of a container's first process. Raises OSError if we may not, or it is not here.

    An engine in a container or a virtual machine of its own tells numbers that belong to other processes here.
    """
    descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    if container not in Path(f"/proc/{pid}/cgroup").read_text():
        os.close(descriptor)
        raise ProcessLookupError(f"process {pid} does not belong to container {container}")
    return NetworkNamespace(descriptor)


def _doors(connection: socket.socket) -> Listeners:
    """Receive a sandbox's doors. Raises MachineError with what was said instead."""
    connection.settimeout(_SECONDS)
    try:
        if (said := connection.recv(_MOST_BYTES)) != OK:
            raise MachineError(said.decode(errors="replace") or "a helper container passed no doors out")
        return Listeners(**receive_sockets(connection))
    except (OSError, EOFError) as error:
        raise MachineError(f"a helper container passed no doors out: {error}") from error
