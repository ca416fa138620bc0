"""What is to be seen inside, mounted at a place of our own from where bubblewrap takes it.

A path could lead elsewhere by the time that bubblewrap follows it: another agent may be at work in a directory above.
So what was named is mounted a second time, by descriptors. Root's agent is a stand-in that could not even enter root's
directories; so for it that is done while we are still root, and what is writable is mounted so that the stand-in
appears as the owner.

What nobody named, the system's directories, the user's tools and the rest of a working tree, is shown through screens:
no socket, FIFO or device of the host works in it. Those, and the places in memory, are mounted with no more rights than
the agent's user has.
"""

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from belljar.backends.local.child.lacks import Lack, StagingError, needed
from belljar.backends.local.identity import Identity
from belljar.linux.files import mounts
from belljar.linux.files.screens import Screens
from belljar.sandbox import bounds
from belljar.sandbox.files.view import View
from belljar.sandbox.spec import Bind

_STAGE: Final = Path("/sys")  # any directory that is always there; only we see what we mount on it

NO_MOUNTS: Final = "the kernel lets us mount nothing"

FILES: Final = "files"
SPARE: Final = "spare"
"""What is in a directory of ours to work in: the agent's files, and what the kernel needs for itself."""


class Stage:
    """The places that bubblewrap takes things from."""

    def __init__(self, view: View, copies: Mapping[Bind, int], memory: int) -> None:
        """Mount everything; `copies` are those of `copies_of`. Raises StagingError."""
        with needed(Lack.MOUNTS, NO_MOUNTS):
            mounts.mount_tmpfs(_STAGE)
        self._places: dict[Bind | Path, Path] = {}
        self._count = 0
        for bind, copy in copies.items():
            self._places[bind] = self._new_place(is_directory=stat.S_ISDIR(os.fstat(copy).st_mode))
            mounts.attach(copy, self._places[bind])
            os.close(copy)
        self.files = dict(view.files)
        """Those for bubblewrap to show: the others are in the system's directories already."""
        empty = self._new_place()
        screens = Screens(empty)
        for bind in (*view.system, *view.tools, *view.around):
            self._screen(bind, screens)
        if view.scratch is not None:
            self._hide(view.scratch, empty)
        sizes = bounds.sizes(view.home, memory)
        self.in_memory = tuple(sizes)
        """Places that are empty at first, in the order in which they are shown."""
        for place, size in sizes.items():
            self._add_memory(place, size, "0700" if place == view.home else "1777")

    def source(self, shown: Bind | Path) -> Path:
        """Return where a part of the host, or a place in memory, is to be taken from."""
        return self._places[shown]

    def _new_place(self, *, is_directory: bool = True) -> Path:
        self._count += 1
        place = _STAGE / str(self._count)
        if is_directory:
            place.mkdir()
        else:
            place.touch()
        return place

    def _screen(self, bind: Bind, screens: Screens) -> None:
        source, target = self._places.get(bind, bind.source), self._new_place()
        try:
            screens.screen(source, target, self._files_in(bind.target))
        except OSError as error:
            raise StagingError(
                f"{bind.source} cannot be shown inside without the sockets in it: no overlay of it is to be had "
                f"({error.strerror})\nThat takes Linux 5.11 or later, and a directory that is not itself on an "
                "overlay of an overlay, as in a container inside a container."
            ) from error
        self._places[bind] = target

    def _files_in(self, directory: Path) -> Path | None:
        """Put files that exist inside only, and belong below a directory, into one of their own; None without any."""
        found = [path for path in self.files if path.is_relative_to(directory)]
        if not found:
            return None
        place = self._new_place()
        for path in found:
            file = place / path.relative_to(directory)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(self.files.pop(path))
            file.chmod(0o444)
        return place

    def _hide(self, scratch: Bind, empty: Path) -> None:
        """Show a directory of ours so that nothing inside tells where it is.

        The kernel tells of each mount which part of a file system it is. An overlay is a file system of its own. Some
        file systems cannot be a layer to write to, such as a container's; there the directory is shown as it is.
        """
        files, spare, target = self._places[scratch] / FILES, self._places[scratch] / SPARE, self._new_place()
        try:
            mounts.mount_writable_overlay(target, empty, files, spare)
        except OSError:
            target = files
        self._places[scratch] = target

    def _add_memory(self, place: Path, size: int, mode: str) -> None:
        self._places[place] = self._new_place()
        mounts.mount_tmpfs(self._places[place], f"mode={mode},size={size},nr_inodes={bounds.files(size)}")


def copies_of(view: View, identity: Identity) -> dict[Bind, int]:
    """Return a second mount of all that was named and of tools, by descriptor. Raises StagingError."""
    ours = () if view.scratch is None else (view.scratch,)
    copies = {bind: _copy(bind) for bind in (*view.tools, *view.around, *view.binds, *ours)}
    if identity.is_stand_in:
        _make_owner(identity, copies, view.around)
    return copies


def _copy(bind: Bind) -> int:
    try:
        return mounts.copy_of(bind.source)
    except OSError as error:
        raise StagingError(f"{bind.source} cannot be shown inside: {error.strerror}") from error


def _make_owner(identity: Identity, copies: Mapping[Bind, int], around: Collection[Bind]) -> None:
    """Show a stand-in as the owner of what it may write to and all that is in there, and of the working tree around."""
    owners = {bind: _owners(copy, identity) for bind, copy in copies.items() if bind.writable or bind in around}
    with ExitStack() as namespaces:
        described = {one: namespaces.enter_context(mounts.user_namespace(one)) for one in set(owners.values())}
        for bind, copy in copies.items():
            holder = next((one for one in owners if bind.source.is_relative_to(one.source)), None)
            if holder is not None:
                _show_as(bind, copy, described[owners[holder]])


def _owners(copy: int, identity: Identity) -> mounts.Owners:
    status = os.fstat(copy)
    return mounts.Owners((status.st_uid, identity.host_uid), (status.st_gid, identity.host_gid))


def _show_as(bind: Bind, copy: int, namespace: int) -> None:
    try:
        mounts.show_as(copy, namespace)
    except OSError as error:
        raise StagingError(
            f"{bind.source} cannot be made writable to a sandbox of root's: {error.strerror}\n"
            "That takes ext4, xfs, btrfs or (since Linux 6.3) tmpfs, for whatever is mounted below as well.\n"
            "Name another directory, or run Belljar as the user that owns it."
        ) from error
