"""Runs a command and leaves nothing of it behind: `python -m scripts.contain SECONDS COMMAND…`.

A test that is killed cannot clean up, and what it started would disturb the next one. This process therefore becomes
the reaper of all its descendants: those whose parent has exited become its children, whatever session, namespaces or
control group they are in. When the command has exited, or has exceeded its time limit, every descendant is killed.
Network namespaces and mounts go with the last process in them; pytest has mounts of its own (`tests/stage.py`). The
control groups of sandboxes are removed here, because the processes that would remove them are killed as well.

Keepers (`tests/engines/keeper.py`) are the exception: when the test that owns one dies, the keeper itself removes its
container engine with all containers, mounts, control groups and files. It gets some time for that.

It runs as root where the tests do, because only root can kill root's processes. The caller may be an ordinary user, who
cannot signal it. So if standard input is a pipe, the command is also ended when the pipe is closed, or the caller is
killed; the command itself has no input.
"""

import contextlib
import os
import re
import shutil
import signal
import stat
import sys
import time
import traceback
from pathlib import Path

from belljar.linux.cgroups import limits
from belljar.linux.descriptors import is_readable
from belljar.linux.processes import inherit_orphans
from tests import stage
from tests.engines import keeper
from tests.engines.engine import KEEPER

TIMED_OUT = 124
"""The exit code if the command exceeded its limit, as of timeout(1)."""

STOPPED = 128 + signal.SIGTERM
"""The exit code if the caller ended the command."""

UNCLEAN = 123
"""The exit code if something of the command could not be ended or removed."""

KEEPER_TIMEOUT = 60
KILL_TIMEOUT = 90
"""After this it gives up on processes that cannot be killed: blocked in the kernel, or of another user."""

GROUP_NAME = re.compile(rf"{limits.PREFIX}(?P<maker>[0-9]+)-")

ENDED_BY = (signal.SIGTERM, signal.SIGHUP)

PIPE_INTERVAL = 1.0
"""Seconds between two looks at standard input, for which there is no signal."""


def main(limit: float, command: list[str]) -> int:
    """Run the command, end what it leaves, and return its exit code."""
    stage.become_root()
    inherit_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, which ends in order
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, *ENDED_BY})  # waited for below
    is_on_pipe = stat.S_ISFIFO(os.fstat(0).st_mode)
    no_input = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    process = os.posix_spawnp(
        command[0],
        command,
        os.environ,
        file_actions=[no_input] if is_on_pipe else [],
        setsigmask=(),
        setsigdef=(signal.SIGINT,),
    )
    code = _wait(process, time.monotonic() + limit, is_on_pipe=is_on_pipe)
    try:
        for name in end_descendants():
            print(f"left behind, and ended: {name}", flush=True)
        if left := _children():
            print(f"left behind, and could not be ended: {left}", flush=True)
            return UNCLEAN
        stage.leave()
    except OSError:
        traceback.print_exc()
        return UNCLEAN
    return code


def _wait(process: int, deadline: float, *, is_on_pipe: bool) -> int:
    """Wait for the command to exit, for the deadline, or for a request to end; return an exit code."""
    while (code := _reap().get(process)) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            return TIMED_OUT
        if is_on_pipe and is_readable(0):  # nothing is ever written to it
            return STOPPED
        received = signal.sigtimedwait({signal.SIGCHLD, *ENDED_BY}, min(left, PIPE_INTERVAL) if is_on_pipe else left)
        if received is not None and received.si_signo in ENDED_BY:
            return 128 + received.si_signo
    return code if code >= 0 else 128 - code


def _reap() -> dict[int, int]:
    """Reap the children that have exited, and return their exit codes; tests wait for orphans to be gone."""
    codes = dict[int, int]()
    with contextlib.suppress(ChildProcessError):
        while (reaped := os.waitpid(-1, os.WNOHANG))[0] != 0:
            codes[reaped[0]] = os.waitstatus_to_exitcode(reaped[1])
    return codes


def end_descendants() -> list[str]:
    """Kill every descendant, remove their control groups, and return what they were called."""
    ended, groups = dict[int, str](), set[str]()
    started = time.monotonic()
    while (children := _children()) and time.monotonic() - started < KILL_TIMEOUT:
        for pid in children:
            words = _command_line(pid)
            of_keeper = len(words) > 1 and words[-2] == str(KEEPER)
            if of_keeper and time.monotonic() - started < KEEPER_TIMEOUT:
                continue
            groups |= {group for group in keeper.groups_of(str(pid)) if Path(group).name.startswith(limits.PREFIX)}
            with contextlib.suppress(PermissionError):
                os.kill(pid, signal.SIGKILL)
            if words:  # it has none if it is exiting
                ended[pid] = " ".join(words)[:200]
            if of_keeper:
                _remove_engine(Path(words[-1]))
        time.sleep(0.01)
    keeper.remove(groups)
    _remove_groups_without_maker()
    return list(ended.values())


def _children() -> list[int]:
    _reap()
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


def _command_line(pid: int) -> list[str]:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return [word.decode(errors="replace") for word in words if word]


def _remove_engine(directory: Path) -> None:
    """Remove what a keeper that had to be killed would have removed."""
    shutil.rmtree(directory, ignore_errors=True)
    keeper.remove({directory.name})


def _remove_groups_without_maker() -> None:
    """Remove the control groups that were left empty and whose makers have exited."""
    for directory, names, _ in os.walk(keeper.GROUPS):
        for name in names:
            found = GROUP_NAME.match(name)
            if found and not Path("/proc", found["maker"]).exists():
                with contextlib.suppress(OSError):
                    Path(directory, name).rmdir()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
