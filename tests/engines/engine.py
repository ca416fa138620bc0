"""An engine that runs, whichever it is."""

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from belljar.linux import programs
from belljar.linux.namespaces import NetworkNamespace
from tests.engines.api import PATIENCE, Api
from tests.processes import children_of

KEEPER = Path(__file__).with_name("keeper.py")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What makes an engine the one it is."""

    kind: Literal["docker", "podman"]
    rootless: bool
    socket: Path
    prepare: str
    """A shell script, for mounts that are seen by the engine and its user alone."""
    command: Sequence[str]
    environment: Mapping[str, str]
    home: Path
    """Of the user who may use the engine."""
    user: Sequence[str]
    """What to put before a command to run it as the user."""
    user_environment: Mapping[str, str]


class Engine:
    """A container engine that serves until it is closed. Its containers end with it."""

    def __init__(self, plan: Callable[[Path], Plan], namespace: NetworkNamespace | None = None) -> None:
        """Start it in a network namespace that has no way out, or in the one given.

        The plan is given a directory for all that the engine writes, and that is gone with it.
        """
        self.namespace = namespace or _without_a_way_out()
        self._owns_namespace = namespace is None
        # The name is short, because a socket's path has 107 bytes at most.
        self.directory = Path(tempfile.mkdtemp(prefix="eng-", dir="/tmp"))
        self.directory.chmod(0o755)
        self._log = self.directory / "log"
        self._keeper = self.namespace.run(lambda: _start_keeper(self.directory))
        try:
            self._start(plan(self.directory))
        except BaseException:
            self.close()
            raise

    def _start(self, plan: Plan) -> None:
        self._plan = plan
        self.kind = plan.kind
        self.rootless = plan.rootless
        self.home = plan.home
        self.socket = plan.socket
        self.url = f"unix://{plan.socket}"
        self.api = Api(plan.socket)
        self.environment = {"PATH": PATH, "HOME": str(plan.home), **plan.user_environment}
        """For processes of the user who may use it."""
        self._ask({"prepare": plan.prepare})
        self.start()

    @property
    def limits(self) -> bool:
        """Whether it can limit what a container uses. As a user it can if the machine has that to delegate."""
        if not self.rootless:
            return True
        controllers = Path(f"/proc/{self._keeper.pid}/root/sys/fs/cgroup/cgroup.controllers").read_text().split()
        return {"cpu", "memory", "pids"} <= set(controllers)

    def start(self) -> None:
        """Start it, with the containers and images that it had before, and wait until it serves."""
        wanted = {"command": self._plan.command, "environment": self._plan.environment, "log": str(self._log)}
        started = int(self._ask(wanted))
        given_up = time.monotonic() + PATIENCE
        while not self._serves():
            alive = Path(f"/proc/{started}").exists() and time.monotonic() < given_up
            assert alive, f"{self.kind} does not serve:\n{self._log.read_text()}"
            time.sleep(0.01)
        self.pid = _server_at(self.socket)

    def stop(self) -> None:
        """Have it end as it does when the machine's administrator stops it. Docker ends its containers first."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it with no chance to do anything. Containers run on."""
        self._signal(signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start it."""
        self.stop()
        self.start()

    def as_user(self, *command: str, workdir: Path | str = "/") -> list[str]:
        """Return what runs a command as the user who may use the engine, and who has no other rights unless root.

        It is to be run with `environment`, in whatever network namespace a test likes.
        """
        mounts = f"--mount=/proc/{self._keeper.pid}/ns/mnt"
        return ["nsenter", mounts, "env", f"--chdir={workdir}", *self._plan.user, "--", *command]

    def run_as_user(
        self, *command: str, workdir: Path | str = "/", **options: Any
    ) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end as that user."""
        argv = self.as_user(*command, workdir=workdir)
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False, **options)

    def close(self) -> None:
        """End it, every container and whatever else it has started, and take its files away."""
        self._keeper.communicate()
        if self._owns_namespace:
            self.namespace.close()
        assert self._keeper.returncode == 0, f"something of {self.directory} is left"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, wanted: Mapping[str, object]) -> str:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.write(json.dumps(wanted).encode() + b"\n")
        self._keeper.stdin.flush()
        answer = self._keeper.stdout.readline()
        assert answer, f"{self.kind} cannot be started here, or is not installed: scripts/setup tests"
        return answer.decode()

    def _serves(self) -> bool:
        try:
            self.api.send("GET", "/_ping")
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        server, *others = (os.pidfd_open(pid) for pid in (self.pid, *self._dependants()))
        signal.pidfd_send_signal(server, number)
        for process in (server, *others):
            ended, _, _ = select.select([process], [], [], PATIENCE)
            assert ended, f"{self.kind} does not end:\n{self._log.read_text()}"
            os.close(process)

    def _dependants(self) -> list[int]:
        """Return who ends with the engine, if a moment later: Docker's containerd. A new one must not meet it."""
        return children_of(self.pid) if self.kind == "docker" else []


def _server_at(path: Path) -> int:
    """Return who listens. It is not always who was started: as a user, Podman serves from a child."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[0])


def _without_a_way_out() -> NetworkNamespace:
    namespace = NetworkNamespace.create()
    namespace.run(lambda: programs.run("ip", "link", "set", "lo", "up"))
    return namespace


def _start_keeper(directory: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, str(KEEPER), str(directory)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
