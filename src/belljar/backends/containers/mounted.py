"""Whether a container was given what was meant: an engine follows a path later than we have looked at it.

In between, an agent that writes to a directory on the way, from another sandbox, can put a link there; and the engine
shows where that leads, with rights that nobody else has. So a container's mounts are looked at when it has started, and
before anything of its image runs: the kernel tells of each which file system, and which part of that, it shows.

Where a path leads to is thus not believed, only what came of it; and a read-only directory with another file system
mounted below, which engines leave writable, is noticed as well.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from belljar.backends.interface import MachineError
from belljar.sandbox.spec import Bind

INFORMATION: Final = "/proc/self/mountinfo"

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Mount(NamedTuple):
    """Something that is seen at some place."""

    device: str
    """A file system."""

    root: str
    """The part of it that is seen."""

    place: str
    is_writable: bool

    @property
    def what(self) -> tuple[str, str]:
        """What is seen, wherever it is."""
        return self.device, self.root


def read(information: str) -> list[Mount]:
    """Return the mounts that the kernel tells of in a `mountinfo`, those on top of others behind them."""
    rows = (line.split(" ") for line in information.splitlines())
    return [
        Mount(row[2], _plain(row[3]), _plain(row[4]), "ro" not in (*row[5].split(","), *row[-1].split(",")))
        for row in rows
    ]


def meant(binds: Iterable[Bind]) -> list[Mount]:
    """Return the mounts that a container should have, by paths that have no link in them."""
    ours = read(Path(INFORMATION).read_text())
    return [_meant(bind, ours) for bind in binds]


def check(information: str, wanted: Sequence[Mount], others: Iterable[str]) -> None:
    """Make sure that a container has these mounts and, but at some places, nothing writable below what is read-only.

    Raises MachineError.
    """
    found = read(information)
    _check_all_there(found, wanted)
    _check_all_there([mount for mount in found if not mount.is_writable], [m for m in wanted if not m.is_writable])
    known = {mount.what for mount in wanted}
    shown = sorted((mount for mount in found if mount.what in known), key=lambda mount: len(mount.place))
    for mount in found:
        around = [above for above in shown if Path(mount.place).is_relative_to(above.place)]
        if mount.is_writable and around and not around[-1].is_writable and mount.place not in others:
            raise MachineError(
                f"{mount.place} is to be read-only inside, but is a file system of its own, and the engine leaves that "
                f"writable; show it by itself as well: --ro-bind SRC:{mount.place}"
            )


def _check_all_there(found: Iterable[Mount], wanted: Iterable[Mount]) -> None:
    for _, root in Counter(mount.what for mount in wanted) - Counter(mount.what for mount in found):
        raise MachineError(
            f"the engine shows something else in place of {root}: did somebody move it, or put a link on the way? "
            "Look at what other sandboxes do there, and try again"
        )


def _meant(bind: Bind, ours: Sequence[Mount]) -> Mount:
    around = sorted((mount for mount in ours if bind.source.is_relative_to(mount.place)), key=lambda m: len(m.place))
    root = Path(around[-1].root) / bind.source.relative_to(around[-1].place)
    return Mount(around[-1].device, str(root), str(bind.target), bind.writable)


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
