"""Who an agent is: inside the sandbox, and to the host's kernel.

An ordinary user's agent is that user, inside and outside, and has none of their rights but those on the files it is
shown. Root's agent is nobody: a user of the host that owns nothing, so that what only root may read stays unread.
"""

import os
from pathlib import Path
from typing import Final, NamedTuple

_STAND_INS: Final = (
    0x62656C6A,  # far from the ranges that systems hand out
    65534,  # nobody, where that number does not exist: in a container's user namespace
)


class Identity(NamedTuple):
    """An agent's user and group."""

    uid: int
    """As programs inside see it."""

    gid: int
    host_uid: int
    """As the host's kernel sees it."""

    host_gid: int
    is_stand_in: bool
    """Whether it is not the caller, but somebody who owns nothing."""


def choose() -> Identity:
    """Return who the agent of the calling user is."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        # In a user namespace that has nobody else, root is an ordinary user of the host, and there is no stand-in.
        for stand_in in filter(_is_mapped, _STAND_INS):
            return Identity(1000, 1000, stand_in, stand_in, is_stand_in=True)
    return Identity(uid or 1000, gid or 1000, uid, gid, is_stand_in=False)


def _is_mapped(uid: int) -> bool:
    ranges = (tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines())
    return any(first <= uid < first + count for first, _, count in ranges)


def account_files(identity: Identity, home: Path) -> dict[Path, bytes]:
    """Return the files in which a stand-in is known by a name; the caller is in the host's already."""
    if not identity.is_stand_in:
        return {}
    uid, gid = identity.uid, identity.gid
    agent = f"agent:x:{uid}:{gid}:agent:{home}:/bin/sh"
    passwd = f"root:x:0:0:root:/root:/bin/sh\n{agent}\nnobody:x:65534:65534:nobody:/:/bin/false\n"
    group = f"root:x:0:\nagent:x:{gid}:\nnogroup:x:65534:\n"
    return {Path("/etc/passwd"): passwd.encode(), Path("/etc/group"): group.encode()}
