"""Docker: `dockerd` with a containerd of its own, and a user who is in the group docker and has no other rights."""

import grp
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from belljar.linux.namespaces import NetworkNamespace
from tests.engines import users
from tests.engines.engine import PATH, Engine, Plan

# Shims have their sockets at a place that cannot be chosen, and leave them there when they are killed.
_PREPARE = f"""{users.OWN_MOUNTS}
mkdir -p /run/containerd
mount -t tmpfs -o mode=755 engine /run/containerd
"""


def start_docker(namespace: NetworkNamespace | None = None, prepare: Callable[[Path], str] | None = None) -> Engine:
    """Start Docker. What it does to a firewall, it does in a network namespace of its own, or in the one given.

    `prepare` is given the engine's directory and returns a script that makes more mounts for the engine and its user.
    """

    def plan(directory: Path) -> Plan:
        made = _plan(directory)
        return replace(made, prepare=made.prepare + prepare(directory)) if prepare else made

    return Engine(plan, namespace)


def _plan(directory: Path) -> Plan:
    home, socket = directory / "home", directory / "docker.sock"
    home.mkdir()
    users.give(home)
    configuration = directory / "daemon.json"
    configuration.write_text("{}")  # and not the machine's
    command = [
        *("dockerd", "--config-file", str(configuration), "--host", f"unix://{socket}", "--group", "docker"),
        *("--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec", "--pidfile", f"{directory}/pid"),
        # Systemd is not asked for control groups, and those that are left are found by their parent.
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent", f"/{directory.name}"),
    ]
    return Plan(
        kind="docker",
        rootless=False,
        socket=socket,
        prepare=_PREPARE + users.introduce(directory, home),
        command=command,
        environment={"PATH": PATH, "HOME": str(directory), "TMPDIR": str(directory)},
        home=home,
        user=users.become([grp.getgrnam("docker").gr_gid]),
        user_environment={},
    )
