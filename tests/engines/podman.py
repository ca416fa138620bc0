"""Podman's service: as root, and as a user who has nothing but subordinate numbers."""

import resource
from pathlib import Path

from belljar.linux import programs
from belljar.linux.namespaces import NetworkNamespace
from tests.engines import users
from tests.engines.engine import PATH, Engine, Plan

_CONTAINERS = """
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
[network]
network_backend = "netavark"
network_config_dir = "{home}/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
tmp_dir = "{run}/libpod"
"""

_STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{home}/storage"
runroot = "{run}/storage"
"""

# Locks are in shared memory, under one name for all engines of a user. Health checks are no task for the machine's own
# systemd: without it, there are none.
_PREPARE = f"""{users.OWN_MOUNTS}
mount -t tmpfs -o mode=1777 engine /dev/shm
[ ! -e /run/systemd/private ] || mount --bind /dev/null /run/systemd/private
"""

# Places of root's that cannot be chosen.
_PLACES = """
for place in /run/containers /run/crun /run/netns /var/lib/containers; do
    mkdir -p $place
    mount -t tmpfs -o mode=755 engine $place
done
"""

# Where a machine has control groups of both versions, crun wants to see but one.
_GROUPS = """
! mountpoint -q /sys/fs/cgroup/unified || umount /sys/fs/cgroup/unified
"""

# A control group of version 2 that belongs to the user, as systemd gives one to whoever logs in. For the engine it is
# the root of all groups. Processes are not in it, but below: only so can it share out what it has.
_DELEGATE = """
umount --recursive --lazy /sys/fs/cgroup
mount -t cgroup2 all /sys/fs/cgroup
for controller in cpu memory pids; do
    echo +$controller 2>/dev/null >/sys/fs/cgroup/cgroup.subtree_control || :
done
mkdir -p /sys/fs/cgroup/{group}/engine
chown -R {user}:{user} /sys/fs/cgroup/{group}
touch {directory}/groups
sh -euc '
    echo $$ >/sys/fs/cgroup/{group}/cgroup.procs
    umount --lazy /sys/fs/cgroup
    exec unshare --cgroup={directory}/groups mount -t cgroup2 own /sys/fs/cgroup
'
"""

# The networks of a user come from a device that is closed where no udev has opened it to everybody.
_TUNNEL = """
if [ -e /dev/net/tun ]; then
    mkdir {directory}/dev
    mount -t tmpfs -o mode=755 engine {directory}/dev
    mknod -m 666 {directory}/dev/tun c 10 200
    mount --bind {directory}/dev/tun /dev/net/tun
fi
"""

_DELEGATED = """
echo $$ >/sys/fs/cgroup/engine/cgroup.procs
exec nsenter --cgroup="$0" "$@"
"""


def start_podman(namespace: NetworkNamespace | None = None) -> Engine:
    """Start Podman as root."""
    return Engine(_plan, namespace)


def start_rootless_podman(namespace: NetworkNamespace | None = None) -> Engine:
    """Start Podman as an ordinary user."""
    return Engine(_rootless_plan, namespace)


def _plan(directory: Path) -> Plan:
    home, run = directory / "home", directory / "run"
    socket = directory / "podman.sock"
    environment = _configure(home, run)
    return Plan(
        kind="podman",
        rootless=False,
        socket=socket,
        prepare=_PREPARE + _PLACES + _GROUPS,
        command=_service(socket),
        environment=environment,
        home=home,
        user=["setpriv", "--clear-groups"],
        user_environment=environment,
    )


def _rootless_plan(directory: Path) -> Plan:
    home, run = directory / "home", directory / "run"
    socket = run / "podman" / "podman.sock"
    environment = _configure(home, run)
    socket.parent.mkdir()
    users.give(home)
    users.give(run)
    own = (_DELEGATE + _TUNNEL).format(group=directory.name, directory=directory, user=users.NUMBER)
    return Plan(
        kind="podman",
        rootless=True,
        socket=socket,
        prepare=_PREPARE + own + users.introduce(directory, home),
        command=["sh", "-euc", _DELEGATED, f"{directory}/groups", *users.become(), *_service(socket)],
        environment=environment,
        home=home,
        user=users.become(),
        user_environment=environment,
    )


def _service(socket: Path) -> list[str]:
    return ["podman", "system", "service", "--time=0", f"unix://{socket}"]


def _configure(home: Path, run: Path) -> dict[str, str]:
    """Write down what makes this engine apart from all others, and return the environment that leads to it."""
    configuration = home / ".config" / "containers"
    configuration.mkdir(parents=True)
    run.mkdir(mode=0o700)
    containers, storage = configuration / "containers.conf", configuration / "storage.conf"
    containers.write_text(_CONTAINERS.format(home=home, run=run, files=_most_files(), processes=_most_processes()))
    storage.write_text(_STORAGE.format(home=home, run=run, driver=_driver(home)))
    return {
        "PATH": PATH,
        "HOME": str(home),
        "TMPDIR": str(home),
        "XDG_RUNTIME_DIR": str(run),
        "CONTAINERS_CONF": str(containers),
        "CONTAINERS_STORAGE_CONF": str(storage),
    }


def _driver(home: Path) -> str:
    """Return how images are stored: as layers of one overlay, unless the home itself is on one, as in a container."""
    below = programs.run("stat", "--file-system", "--format=%T", str(home)).strip()
    return "vfs" if below == "overlayfs" else "overlay"


# Podman gives containers more than this process may have, unless it is told otherwise; not every root may do that.


def _most_files() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def _most_processes() -> int:
    """Return what it lowers its own limit to."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    number = int(Path("/proc/sys/kernel/pid_max").read_text())
    return number if most == resource.RLIM_INFINITY else min(most, number)
