"""Whether a container was given what was meant: an engine follows a path later than we have looked at it.

In between, an agent that writes to a directory on the way, from another sandbox, can put a link there; and the engine
shows where that leads, with rights that nobody else has. So a container's mounts are looked at when it has started, and
before anything of its image runs: the kernel tells of each which file system, and which part of that, it shows.

Where a path leads to is thus not believed, only what came of it; and a read-only directory with another file system
mounted below, which engines leave writable, is noticed as well.

Nor is it enough that everything is there. An engine follows the path to each place when it mounts there, one after the
other, and an image that has links on the way and volumes in between can have a path mean something else by then: what
is protected would be read-only elsewhere, and writable where the working directory has come to be. The kernel tells of
each mount which other it is on; so what is meant to be in another has to be on just that one, with nothing over it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from belljar.backends.interface import MachineError
from belljar.errors import printable
from belljar.sandbox.spec import Bind

INFORMATION: Final = "/proc/self/mountinfo"

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class ExpectedMount(NamedTuple):
    """Something that is seen at some place."""

    device: str
    """A file system."""

    root: str
    """The part of it that is seen."""

    place: str
    is_writable: bool

    id: int = 0
    parent: int = 0
    """The mount that it is on, if both have been made."""

    @property
    def what(self) -> tuple[str, str]:
        """What is seen, wherever it is."""
        return self.device, self.root


def read(information: str) -> list[ExpectedMount]:
    """Return the mounts that the kernel tells of in a `mountinfo`, those on top of others behind them."""
    rows = (line.split(" ") for line in information.split("\n") if line)  # names have what else Python takes for ends
    return [
        ExpectedMount(
            device=row[2],
            root=_plain(row[3]),
            place=_plain(row[4]),
            is_writable="ro" not in (*row[5].split(","), *row[-1].split(",")),
            id=int(row[0]),
            parent=int(row[1]),
        )
        for row in rows
    ]


def told(path: Path) -> str:
    """Return what the kernel tells in a `mountinfo`, in which names may be any bytes."""
    return path.read_bytes().decode(errors="surrogateescape")


def meant(binds: Iterable[Bind]) -> list[ExpectedMount]:
    """Return the mounts that a container should have, by paths that have no link in them."""
    ours = read(told(Path(INFORMATION)))
    return [_meant(bind, ours) for bind in binds]


def check(information: str, wanted: Sequence[ExpectedMount], others: Iterable[str], secret: str) -> None:
    """Make sure that a container has these mounts where they are meant to be, one on the other.

    But at some places, there must be nothing writable below what is read-only. Something is mounted at a secret place:
    a file of the image's, on a volume over /proc, which crun allows, cannot tell of that.

    Raises MachineError.
    """
    if f" {secret} " not in information:
        raise MachineError(
            "the container does not tell what is mounted in it: the image has a volume over /proc, or a part of it; "
            "take another image"
        )
    found = read(information)
    _check_all_there(found, wanted)
    _check_all_there([mount for mount in found if not mount.is_writable], [m for m in wanted if not m.is_writable])
    _check_places(found, wanted)
    known = {mount.what for mount in wanted}
    visible = [mount for mount in found if not _over(mount, found)]
    shown = sorted((mount for mount in visible if mount.what in known), key=lambda mount: len(mount.place))
    for mount in visible:
        around = [above for above in shown if Path(mount.place).is_relative_to(above.place)]
        if mount.is_writable and around and not around[-1].is_writable and mount.place not in others:
            raise MachineError(
                f"{printable(mount.place)} is to be read-only inside, but is a file system of its own, and the engine "
                f"leaves that writable; show it by itself as well: --ro-bind SRC:{printable(mount.place)}"
            )


def _check_all_there(found: Iterable[ExpectedMount], wanted: Iterable[ExpectedMount]) -> None:
    for _, root in Counter(mount.what for mount in wanted) - Counter(mount.what for mount in found):
        raise MachineError(
            f"the engine shows something else in place of {printable(root)}: did somebody move it, or put a link on "
            "the way? Look at what other sandboxes do there, and try again"
        )


def _check_places(found: Sequence[ExpectedMount], wanted: Sequence[ExpectedMount]) -> None:
    """Make sure that each mount is where it is wanted, on the one that it is wanted in, and that nothing is over it.

    By itself, what is read-only may be where a link of the image's leads to, as /bin does to /usr/bin.
    """
    seats: dict[str, ExpectedMount] = {}
    for want in sorted(wanted, key=lambda mount: len(Path(mount.place).parts)):
        around = [other for other in wanted if Path(other.place) in Path(want.place).parents]
        is_alone = not around and not any(Path(want.place) in Path(other.place).parents for other in wanted)
        if is_alone and not want.is_writable:
            continue
        there = [mount for mount in found if (mount.what, mount.place) == (want.what, want.place)]
        seat = next((mount for mount in there if not _over(mount, found)), None)
        if seat is None or (seat.is_writable and not want.is_writable):
            raise _moved(want, found)
        if around:
            below = [mount for mount in _lineage(seat, found) if mount.place != seat.place]
            if below[:1] != [seats[max(around, key=lambda mount: len(mount.place)).place]]:
                raise _moved(want, found)
        seats[want.place] = seat
    _check_no_more(found, wanted, seats.values())


def _check_no_more(
    found: Sequence[ExpectedMount], wanted: Iterable[ExpectedMount], seats: Collection[ExpectedMount]
) -> None:
    """Make sure that nothing that is protected, or has something protected in it, is writable at another place."""
    holders = {str(parent) for mount in wanted for parent in Path(mount.place).parents}
    guarded = {mount.what: mount for mount in wanted if not mount.is_writable or mount.place in holders}
    for mount in found:
        if mount.what in guarded and mount.is_writable and mount not in seats and not _over(mount, found):
            raise _moved(guarded[mount.what], found)


def _lineage(mount: ExpectedMount, found: Iterable[ExpectedMount]) -> list[ExpectedMount]:
    """Return a mount, the one that it is on, and so on."""
    known, lineage = {each.id: each for each in found}, [mount]
    while (below := known.get(lineage[-1].parent)) is not None and below not in lineage:
        lineage.append(below)
    return lineage


def _over(mount: ExpectedMount, found: Sequence[ExpectedMount]) -> list[ExpectedMount]:
    """Return what is mounted over a mount, or on the way to it, so that it cannot be seen."""
    ids = {each.id for each in _lineage(mount, found)}
    return [
        each
        for each in found
        if each.parent in ids and each.id not in ids and Path(mount.place).is_relative_to(each.place)
    ]


def _moved(want: ExpectedMount, found: Sequence[ExpectedMount]) -> MachineError:
    elsewhere = [mount.place for mount in found if mount.what == want.what and mount.place != want.place]
    where = f"it is at {printable(elsewhere[0])}" if elsewhere else "something else is mounted over it or on the way"
    return MachineError(
        f"{printable(want.place)} is not what was meant inside: {where}, since the image has a link or a volume there, "
        "and what is protected might be written to; take another image, or show the sandbox a directory at a path that "
        "has no part in the image"
    )


def _meant(bind: Bind, ours: Sequence[ExpectedMount]) -> ExpectedMount:
    around = sorted((mount for mount in ours if bind.source.is_relative_to(mount.place)), key=lambda m: len(m.place))
    root = Path(around[-1].root) / bind.source.relative_to(around[-1].place)
    return ExpectedMount(around[-1].device, str(root), str(bind.target), bind.writable)


def _plain(field: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
