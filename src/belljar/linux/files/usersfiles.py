"""Files of the user's own that are trusted, at places in the home directory that the system knows of.

A variable may lead into a project. What the password database says does not.
"""

import grp
import os
import pwd
from collections.abc import Iterable
from pathlib import Path

from belljar.linux.files.trusted import Trust


def home() -> Path | None:
    """Return the user's home directory, if the system knows of one."""
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    except KeyError:
        return None


def trust_in(places: Iterable[Path], system: tuple[Path, ...] = Trust().system, exposed: Iterable[Path] = ()) -> Trust:
    """Return the trust in the system's files, and in those of the user's at some places."""
    return Trust(system, os.geteuid(), _private_group(), tuple(places), tuple(exposed))


def _private_group() -> int | None:
    """Return the user's own group, if nobody else is in it: many systems let it write to all that a user makes."""
    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return None
    if user.pw_uid == 0:
        return None  # some systems have ordinary users in the group of root's
    return group.gr_gid if group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name} else None
