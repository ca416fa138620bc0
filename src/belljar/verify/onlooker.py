"""What an onlooker tells of a running sandbox: of layers behind others, to which no probe inside gets."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from belljar.backends.local.limiting import default_group
from belljar.linux.cgroups.limits import place_of
from belljar.linux.namespaces import CLONE_NEWUSER, setns, unshare
from belljar.sandbox import bounds
from belljar.verify.catalogue import title
from belljar.verify.report import ProbeVerdict, Result

ROWS: Final = {
    33: "a new user namespace, made from outside in the sandbox's own, where no filter refuses it",
    71: "the control group that bounds all of the sandbox's memory",
}
_OF_ENGINES: Final = {
    33: "engines leave it to the filter alone to refuse user namespaces",
    71: "what a container's control group allows, where there is one, is seen from inside: 71-limits",
}


def look_at(maker: int | None) -> list[Result]:
    """Look at the sandbox that a process has made; None if an engine has."""
    if maker is None:
        return [_row(number, ProbeVerdict.OUT_OF_SCOPE, why) for number, why in _OF_ENGINES.items()]
    try:
        inside = _innermost(maker)
        return [_new_namespace_in(inside), _bounded_memory_of(inside)]
    except OSError as error:
        return [_row(number, ProbeVerdict.UNPROVEN, f"the sandbox cannot be seen: {error}") for number in ROWS]


def _row(way_out: int, verdict: ProbeVerdict, evidence: str) -> Result:
    return Result(f"{way_out}-seen-from-outside", title(way_out), ROWS[way_out], verdict, evidence)


def _innermost(process: int) -> int:
    """Return the descendant that is furthest down: that is the command's."""
    generation = [process]
    while younger := [child for one in generation for child in _children(one)]:
        generation = younger
    return generation[0]


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def _new_namespace_in(process: int) -> Result:
    """Try it as somebody who has every right in the sandbox's user namespace, which nobody inside has."""
    user, group = (int(Path(f"/proc/{process}/{kind}_map").read_text().split()[0]) for kind in ("uid", "gid"))
    if Path(f"/proc/{process}/ns/user").samefile("/proc/self/ns/user"):
        return _row(33, ProbeVerdict.BROKEN, "the sandbox has no user namespace of its own")
    namespace = os.open(f"/proc/{process}/ns/user", os.O_RDONLY)
    child = os.fork()
    if child == 0:
        failed = errno.EINVAL
        try:
            setns(namespace, CLONE_NEWUSER)
            os.setresgid(group, group, group)  # who is nobody there can make none in any case
            os.setresuid(user, user, user)
            unshare(CLONE_NEWUSER)
            failed = 0
        except OSError as error:
            failed = error.errno or failed
        finally:
            os._exit(failed)
    os.close(namespace)
    failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if failed == errno.ENOSPC:
        return _row(33, ProbeVerdict.HOLDS, "there may be no more of them")
    if failed == 0:
        return _row(33, ProbeVerdict.BROKEN, "it was made")
    return _row(33, ProbeVerdict.UNPROVEN, os.strerror(failed))


def _bounded_memory_of(process: int) -> Result:
    group = default_group()
    if group is None:
        return _row(71, ProbeVerdict.OUT_OF_SCOPE, "no control group for memory can be had here; see `belljar doctor`")
    group.remove()
    place = place_of(process, "memory") or Path("/nonexistent")
    for name in ("memory.max", "memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max" is no bound
            limit = int((place / name).read_text())
            holds = limit <= bounds.in_all(bounds.here())
            return _row(71, ProbeVerdict.HOLDS if holds else ProbeVerdict.BROKEN, f"{limit} bytes")
    return _row(71, ProbeVerdict.BROKEN, "there is no bound")
