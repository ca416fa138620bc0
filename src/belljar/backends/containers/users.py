"""As whom an agent's commands run in a container.

It is whom the image says. Where a directory of the host is worked in, it is whom that belongs to: root of a container
has no right to the files of others, since it has no capabilities, and what an agent makes should belong to its user.
"""

import io
import tarfile
from pathlib import Path
from typing import Final, NamedTuple

from belljar.backends.containers.engine.client import Engine, EngineError
from belljar.backends.containers.engine.images import Image
from belljar.backends.containers.engine.rights import is_rootless, outside
from belljar.backends.interface import SpecError
from belljar.errors import printable
from belljar.sandbox.spec import SandboxSpec

_KEEP: Final = "keep-id"
"""What Podman calls a user namespace in which the user who runs it has their own number."""


_MOST_BYTES: Final = 1 << 20
_MOST_DIGITS: Final = 10
_SHOWN: Final = 64
_LAST: Final = (1 << 32) - 2
"""The greatest number of a user or a group: the next one means none."""

_ROOT: Final = ("", "root", "0", "0:0")


class User(NamedTuple):
    """Who runs commands, and in what user namespace."""

    name: str
    """A name or a number, of a user or of user and group. Empty for root."""

    namespace: str
    has_home: bool
    """Whether the image has a home directory for this user."""


def choose(engine: Engine, spec: SandboxSpec, image: Image) -> User:
    """Return as whom commands run."""
    if spec.workdir is None or not spec.workdir.exists():
        return User(image.user, "", has_home=True)
    status = spec.workdir.stat()
    owner, group = outside(status.st_uid, "uid") or 0, outside(status.st_gid, "gid") or 0
    is_images = str(owner) == image.user.partition(":")[0] or (owner == 0 and image.user in _ROOT)
    numbers = f"{owner}:{group}"
    if not is_rootless(engine):
        return User(numbers, "", has_home=is_images)
    if engine.kind == "podman":
        return User(numbers, _KEEP, has_home=is_images)
    return User("0:0", "", has_home=image.user in _ROOT)


def make_directory(engine: Engine, container: str, user: str, place: Path) -> None:
    """Make a directory for a user, in a container that has not started yet."""
    uid, gid = _numbers(engine, container, user)
    entry = tarfile.TarInfo(str(place)[1:])
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o755, uid, gid
    # Without the padding that is usual behind the end: Podman takes it amiss when nobody reads that.
    archive = entry.tobuf() + bytes(2 * tarfile.BLOCKSIZE)
    engine.upload(f"/containers/{container}/archive", archive, path="/")


def _numbers(engine: Engine, container: str, user: str) -> tuple[int, int]:
    """Return the numbers of a user and a group, as the image knows them."""
    name, _, group = user.partition(":")
    if name in _ROOT:
        name, group = "0", group or "0"
    for line in _lines(engine, container, "/etc/passwd") if not name.isdecimal() else ():
        if line[0] == name:
            name, group = line[2], group or line[3]
    for line in _lines(engine, container, "/etc/group") if group and not group.isdecimal() else ():
        if line[0] == group:
            group = line[2]
    return _number(name, user), _number(group, user)


def _number(text: str, user: str) -> int:
    if not text.isdecimal():
        return 0
    if len(text) > _MOST_DIGITS or int(text) > _LAST:  # Python refuses to read numbers of some thousand digits
        raise SpecError(
            f"the image runs as {printable(user[:_SHOWN])}, and says that this is the user or group {text[:_SHOWN]}; "
            f"there are none beyond {_LAST}: take another image, or mend its /etc/passwd and /etc/group"
        )
    return int(text)


def _lines(engine: Engine, container: str, path: str, most_links: int = 8) -> list[list[str]]:
    """Return the lines of a file of an image, which may be anything: none, if it is not as such a file should be."""
    try:
        content = engine.download(f"/containers/{container}/archive", _MOST_BYTES, path=path)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            member = archive.next()
            if member is not None and member.issym() and most_links:
                return _lines(engine, container, str(Path(path).parent / member.linkname), most_links - 1)
            file = archive.extractfile(member) if member is not None and member.isfile() else io.BytesIO()
            rows = [line.split(":") for line in (file or io.BytesIO()).read().decode(errors="replace").split("\n")]
    except (EngineError, tarfile.TarError, UnicodeError):
        return []
    return [row for row in rows if len(row) > 3]
