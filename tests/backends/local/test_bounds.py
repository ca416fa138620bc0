"""What a sandbox can use of the machine's memory when nobody has said how much: a part of it, in whatever form."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from belljar.linux.cgroups import limits
from tests.backends.local.conftest import PATIENCE, Cli

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

SHARE = """
import ctypes, errno, json, os, resource
libc = ctypes.CDLL(None, use_errno=True)
def attempt(call, *arguments):
    return "done" if call(*arguments) >= 0 else errno.errorcode[ctypes.get_errno()]
def fill(call, *arguments):
    for count in range(100_000):
        if (result := attempt(call, *arguments)) != "done":
            return [count, result]
def read(name):
    return open("/proc/sys/kernel/" + name).read().split()
def raised(name):
    try:
        open("/proc/sys/kernel/" + name, "w").write("1000000")
    except OSError as error:
        return type(error).__name__
shmget, semget = libc.shmget, libc.semget
shmget.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
most = int(read("shmmax")[0])
print(json.dumps({
    "a segment": attempt(shmget, 0, 1 << 20, 0o600),
    "beyond": attempt(shmget, 0, most + 4096, 0o600),
    "in all": fill(shmget, 0, most // 4, 0o600),
    "queues": fill(libc.msgget, 0, 0o600),
    "semaphores": fill(semget, 0, 1000, 0o600),
    "most": most,
    "raised": [raised(name) for name in ("shmmax", "shmall", "msgmni", "sem")],
    "limits": {name: resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
               for name in ("NOFILE", "MEMLOCK", "MSGQUEUE", "SIGPENDING")},
}))
"""


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split(".")[:2])) < (6, 9), reason="before Linux 6.9 a control group is the bound"
)
def test_shared_memory_is_bounded(cli: Cli) -> None:
    """It stays when the programs that made it have ended, so that nobody can be killed to get it back."""
    inside = json.loads(cli.run("--", "python3", "-c", SHARE).stdout)
    assert inside["a segment"] == "done"
    assert inside["beyond"] == "EINVAL"
    assert inside["in all"] == [3, "ENOSPC"]
    assert inside["most"] <= MACHINE // 64
    assert inside["queues"] == [1024, "ENOSPC"]
    assert inside["semaphores"] == [32, "ENOSPC"]
    assert inside["raised"] == ["OSError"] * 4
    assert all(
        limit <= {"MEMLOCK": 64 << 20, "MSGQUEUE": 819200}.get(name, 65536) for name, limit in inside["limits"].items()
    )


DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "console")

FILES = """
import errno, json, os, sys
found = {}
for line in open("/proc/self/mounts"):
    _, place, kind, options, *_ = line.split()
    if kind == "tmpfs" and "rw" in options.split(",") and os.access(place, os.W_OK):
        free, count = os.statvfs(place).f_favail, 0
        directory = os.path.join(place, "files")
        os.mkdir(directory)
        try:
            for count in range(1, free if free < 30_000 else 10_001):
                os.close(os.open(f"{directory}/{count}", os.O_CREAT | os.O_WRONLY))
            if free < 30_000:
                os.close(os.open(f"{directory}/last", os.O_CREAT | os.O_WRONLY))
                os.close(os.open(f"{directory}/over", os.O_CREAT | os.O_WRONLY))
            found[place] = [free, os.statvfs(place).f_blocks * os.statvfs(place).f_frsize, "fits"]
        except OSError as error:
            found[place] = [free, os.statvfs(place).f_blocks * os.statvfs(place).f_frsize, errno.errorcode[error.errno]]
try:
    device = os.open("/dev/new", os.O_CREAT | os.O_WRONLY)
except OSError:
    device = None
print(json.dumps({"found": found, "mounts": open("/proc/mounts").read(), "made in /dev": device is not None}))
"""


def test_files_in_memory_are_bounded(cli: Cli) -> None:
    """By size and by number: they take the kernel's memory, however empty they are.

    Whatever is writable in memory is looked at.
    """
    output = json.loads(cli.run("--", "python3", "-c", FILES).stdout)
    found = output["found"]
    assert {"/tmp", "/var/tmp", "/run", "/dev/shm", "/home/somebody"} == set(found)
    for place, (free, size, outcome) in found.items():
        assert free <= size // 16384 + 1, place
        assert outcome == ("ENOSPC" if free < 30_000 else "fits"), place
    mounts = [line.split()[1:4] for line in output["mounts"].splitlines()]
    writable = {
        place: words.split(",") for place, kind, words in mounts if kind == "tmpfs" and "rw" in words.split(",")
    }
    sizes = [int(word[5:-1]) << 10 for words in writable.values() for word in words if word.startswith("size=")]
    assert len(sizes) == len(writable)
    assert sum(sizes) < MACHINE / 2
    assert not output["made in /dev"]


def _mounts(table: str) -> dict[str, str]:
    """Return which part of a file system is mounted at each place."""
    return {place: root for _, _, _, root, place, *_ in map(str.split, table.splitlines())}


def test_mounts_tell_of_no_directory_that_was_not_named(cli: Cli) -> None:
    parts = _mounts(cli.run("--", "cat", "/proc/self/mountinfo").stdout)
    assert parts[str(cli.workdir)].endswith(str(cli.workdir))  # the machine itself may be a part of a file system
    ours = {place for place, root in parts.items() if root != "/" and not root.endswith("//deleted")}
    assert ours - {str(cli.workdir), "/", "/proc/sys"} <= {f"/dev/{name}" for name in DEVICES}


ALLOCATE = "held = [b'x' * (64 << 20) for _ in range(10)]\nprint('had it')"


@pytest.fixture
def surroundings(cli: Cli) -> Iterator[set[Path]]:
    """A control group of 800 MiB that is the user's: all the machine that a sandbox in it knows of."""
    group = limits.Group(cpus=None, memory_bytes=800 << 20, name=f"surroundings-{os.getpid()}")
    owner = cli.workdir.stat()
    for directory in group.directories:
        for path in (directory, directory / "cgroup.procs"):
            os.chown(path, owner.st_uid, owner.st_gid)
    yield group.directories
    assert limits.remove_soon(group.directories)


def test_memory_is_bounded_without_being_asked_for(cli: Cli, surroundings: set[Path]) -> None:
    """Where a control group can be had, it is three quarters of what there is, and whoever exceeds it is killed."""

    def run(*words: str) -> tuple[int, str, str]:
        running = cli.start(
            *words, "--", "python3", "-c", ALLOCATE, stdout=-1, stderr=-1,
            preexec_fn=lambda: limits.add(surroundings, 0),
        )  # fmt: skip
        told, said = running.communicate(timeout=PATIENCE)
        return running.returncode, told, said

    code, told, said = run()
    assert (code, told) == (137, "")
    assert "ran out of memory" in said
    assert run("--mem-limit", "720m") == (0, "had it\n", "")
