"""The process around an engine: whatever the engine starts or mounts is gone when this ends.

An engine's containers are meant to outlive it, and they do when a test stops or kills it. So it is not enough to end
the engine, and a PID namespace around it will not do: the numbers of processes that the engine tells would not be those
that a gateway sees. Instead the keeper is the reaper of all its descendants, orphans included, and it has mounts of its
own. It is told over its standard input what to start, and when that ends, because the test has closed it or has died
in whatever way, it kills every descendant and takes the engine's files and control groups away.
"""

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from belljar.linux.namespaces import CLONE_NEWNS, setns, unshare
from belljar.linux.processes import inherit_orphans

GROUPS = Path("/sys/fs/cgroup")
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

requests = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - no buffer, because it is selected on


def main(directory: Path) -> None:
    """Prepare as the first request says, and start what each further one says. Afterwards the directory is gone."""
    inherit_orphans()
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    machine = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    groups = {directory.name}
    try:
        unshare(CLONE_NEWNS)
        if line := requests.readline():
            subprocess.run(["/bin/sh", "-euc", json.loads(line)["prepare"]], check=True)
            say("prepared")
            attend()
    finally:
        groups |= end_descendants()
        setns(machine, CLONE_NEWNS)
        shutil.rmtree(directory)
        remove(groups)


def attend() -> None:
    """Start what is asked for, and reap whoever ends, until nobody asks any more."""
    wakeup, wake = os.pipe()
    for end in (wakeup, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([requests.fileno(), wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
        reap()  # always: a new engine must not take the dead for the living
        if requests.fileno() in ready:
            line = requests.readline()
            if not line:
                return
            say(start(**json.loads(line)))


def start(command: list[str], environment: dict[str, str], log: str) -> int:
    """Start a process where no signal of a terminal reaches it, and return its number."""
    said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    streams = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, said, 1), (os.POSIX_SPAWN_DUP2, said, 2)]
    # Not `subprocess`, which wants to reap its child itself.
    pid = os.posix_spawnp(command[0], command, environment, file_actions=streams, setsid=True, setsigdef=IGNORED)
    os.close(said)
    os.close(null)
    return pid


def reap() -> bool:
    """Bury the dead, and tell whether anybody lives."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def end_descendants() -> set[str]:
    """Kill every child, then those who have become children by that, until there is none; return their groups."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    own, groups = groups_of("self"), set[str]()
    while reap():
        for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            groups |= groups_of(pid) - own
            os.kill(int(pid), signal.SIGKILL)
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    return groups


def groups_of(pid: str) -> set[str]:
    """Return the paths of a process's control groups, without the slash in front."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return {line.split(":", 2)[2].lstrip("/") for line in lines}


def remove(groups: set[str]) -> None:
    """Take control groups away, in whichever hierarchies they are, unless another engine's processes are in them."""
    for found in [path for name in groups for path in (GROUPS / name, *GROUPS.glob(f"*/{name}"))]:
        for group, _, _ in os.walk(found, topdown=False):
            try:
                os.rmdir(group)  # noqa: PTH106
            except OSError as error:
                if error.errno not in {errno.EBUSY, errno.ENOENT}:
                    raise


def say(answer: object) -> None:
    """Answer with a line."""
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
