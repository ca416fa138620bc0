"""Processes as /proc shows them."""

from contextlib import suppress
from pathlib import Path


def children_of(parent: int) -> list[int]:
    """Return the children of all threads of a process, in ascending order.

    The lists of children that each thread has in /proc are no use: one that ends while they are read takes its list
    with it, and its children turn up in that of another thread, which may have been read before.
    """
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            _, its_parent, *_ = (process / "stat").read_text().rpartition(")")[2].split()
            if int(its_parent) == parent:
                found.append(int(process.name))
    return sorted(found)
