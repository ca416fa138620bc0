"""What it takes to make network namespaces: root, or root of a user namespace of our own."""

import os
import struct
import subprocess
from functools import cache
from pathlib import Path

from belljar.linux.namespaces import CLONE_NEWUSER, NetworkNamespace, unshare

EVERY_ENGINE = os.environ.get("BELLJAR_TEST_ENGINES") == "all"
"""Whether tests of containers are to be run on every engine, which takes a while."""

CAP_NET_RAW = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
"""The extended attribute `cap_net_raw=ep` in version 2 of its format, as of capabilities(7)."""


@cache
def missing() -> str | None:
    """Return why network namespaces cannot be made here, or None if they can."""
    try:
        NetworkNamespace.create().close()
    except OSError as error:
        return f"needs network namespaces: run as root, or allow user namespaces ({error})"
    return None


@cache
def missing_for_engines() -> str | None:
    """Return why container engines cannot be started here, or None if they can.

    Root of a user namespace of our own is not enough: there is but one user in it.
    """
    everybody = ["0", "0", str(2**32 - 1)]
    if os.geteuid() != 0 or Path("/proc/self/uid_map").read_text().split() != everybody:
        return "needs the machine's root to start container engines: sudo make test"
    return missing()


def gain() -> None:
    """Become root of a new user namespace if that is what is missing and if it can be had.

    The whole process moves, so this is for its very start, when there is one thread.
    """
    if os.geteuid() == 0 or not _user_namespaces_work():
        return
    uid, gid = os.geteuid(), os.getegid()
    unshare(CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def _user_namespaces_work() -> bool:
    """Try in a child: some systems let the namespace be made and then give no rights in it."""
    try:
        trial = subprocess.run(["unshare", "--map-root-user", "--net", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return trial.returncode == 0
