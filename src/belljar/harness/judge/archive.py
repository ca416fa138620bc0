"""Make an agent's archive fit for the judge: check it, filter it, and write it anew.

The judge's sandbox gets an archive that was written here, member by member, and never a byte of the headers that the
agent made. What cannot be unpacked without harm refuses the whole archive (ArchiveError); what is merely not part of
the submission is left out, with a reason.

Left out as well is what takes control of a test runner instead of being work: `conftest.py`, `sitecustomize.py` and
their like are loaded before a test runs and can turn every failure into a success. A task whose work is such a file
names it in `submit_paths`.
"""

import tarfile
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Final

from belljar.errors import printable
from belljar.harness.judge.tarreader import (
    ArchiveError,
    ArchiveLimits,
    ArchiveMember,
    MemberKind,
    TarReader,
    show_name,
)

_EVERYTHING: Final = "."
_MAX_COMPONENT: Final = 255
_MAX_DEPTH: Final = 100
_MAX_LISTED: Final = 1000
_MAX_NAMES: Final = 32 << 20
"""Characters of all names, which are in memory until the archive is read."""

_TAKES_CONTROL: Final = (
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "pytest.py",
)
_TYPES: Final = {
    MemberKind.FILE: tarfile.REGTYPE,
    MemberKind.DIRECTORY: tarfile.DIRTYPE,
    MemberKind.SYMLINK: tarfile.SYMTYPE,
    MemberKind.HARD_LINK: tarfile.LNKTYPE,
}


@dataclass(frozen=True, slots=True)
class SubmissionFilter:
    """What of an archive is the submission: a task's `submit_paths` and `submit_exclude`."""

    paths: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def why_not(self, name: str) -> str | None:
        """Return why a path is not part of the submission; None if it is."""
        parts = name.split("/")
        if ".git" in parts:
            return "git's own files are never submitted"
        if not any(_is_below(name, path) for path in self.paths):
            return "not below submit_paths"
        if pattern := self.excluded_by(name):
            return f"submit_exclude has {pattern}"
        return self._takes_control(name, parts)

    def excluded_by(self, name: str) -> str | None:
        """Return the entry of `exclude` that a path, or a directory above it, matches; None if there is none."""
        return _excluding(name, self.exclude)

    def _takes_control(self, name: str, parts: list[str]) -> str | None:
        if name in self.paths:
            return None
        if ".pytest_cache" in parts or (parts[-1].endswith(".pyc") and "__pycache__" in parts[:-1]):
            return "a cache that the test runner would trust"
        if any(fnmatchcase(parts[-1], pattern) for pattern in _TAKES_CONTROL):
            return "controls the test runner; a task that wants it names it in submit_paths"
        return None


@dataclass(slots=True)
class CleanArchive:
    """What was found in an archive."""

    names: list[str] = field(default_factory=list)
    """The members that are submitted, in order."""

    left_out: list[str] = field(default_factory=list)
    """The others, each with its reason."""

    size: int = 0
    """Bytes of the files that are submitted."""


def clean_archive(
    source: Path, target: Path | None, wanted: SubmissionFilter, limits: ArchiveLimits | None = None
) -> CleanArchive:
    """Check an archive, and write what is submitted of it as an uncompressed tar archive.

    With no target, only check. Raises ArchiveError; nothing is left of the target then.
    """
    cleaner = _Cleaner(wanted, limits or ArchiveLimits())
    with source.open("rb") as file:
        if target is None:
            return cleaner.run(file, None)
        try:
            with target.open("xb") as output:
                return cleaner.run(file, output)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


class _Cleaner:
    def __init__(self, wanted: SubmissionFilter, limits: ArchiveLimits) -> None:
        self._wanted, self._limits = wanted, limits
        self._kinds: dict[str, MemberKind] = {}
        """Every path that the archive makes, the directories in between included."""

        self._kept: set[str] = set()
        self._links: dict[str, str] = {}
        self._result = CleanArchive()
        self._unlisted = self._names = 0

    def run(self, file: BinaryIO, output: BinaryIO | None) -> CleanArchive:
        reader = TarReader(file, self._limits)
        for member in reader.members():
            name = _clean_name(member.name)
            if name == _EVERYTHING:
                if member.kind is not MemberKind.DIRECTORY:
                    raise ArchiveError("the archive replaces the working directory itself; leave that out")
                continue
            self._enter(name, member.kind)
            reason = self._wanted.why_not(name)
            link = None if reason else _link(name, member)
            if link is not None and link != _EVERYTHING and self._wanted.why_not(link):
                reason = f"links to {printable(link)}, which is not submitted"
            if reason:
                if member.kind is not MemberKind.DIRECTORY:  # files below it are listed themselves
                    self._leave_out(name, reason)
                continue
            self._keep(name, member, link, reader, output)
        self._check_links()
        if output is not None:
            output.write(bytes(2 * tarfile.BLOCKSIZE))
        if self._unlisted:
            self._result.left_out.append(f"… and {self._unlisted} more")
        return self._result

    def _enter(self, name: str, kind: MemberKind) -> None:
        """Note what a path is. Raises ArchiveError if the archive needs it to be something else."""
        above = ""
        for part in name.split("/")[:-1]:
            above = f"{above}/{part}" if above else part
            if self._kinds.setdefault(above, MemberKind.DIRECTORY) is not MemberKind.DIRECTORY:
                raise ArchiveError(
                    f"{_shown(name)} is below {_shown(above)}, which is a {self._kinds[above].value}; "
                    "make the archive anew"
                )
        if self._kinds.setdefault(name, kind) is not kind:
            raise ArchiveError(
                f"{_shown(name)} is in the archive as a {self._kinds[name].value} and as a {kind.value}; "
                "make the archive anew"
            )
        self._names += len(name)
        if len(self._kinds) > 2 * self._limits.members or self._names > _MAX_NAMES:
            raise ArchiveError("the archive has too many directories, or too long names; submit fewer files")

    def _keep(
        self, name: str, member: ArchiveMember, link: str | None, reader: TarReader, output: BinaryIO | None
    ) -> None:
        if member.kind is MemberKind.HARD_LINK and link is not None:
            if self._kinds.get(link) is not MemberKind.FILE or link not in self._kept:
                raise ArchiveError(f"{_shown(name)} is a hard link to {_shown(link)}, which is no file before it")
        elif link is not None:
            self._links[name] = link
        self._kept.add(name)
        self._result.names.append(name)
        self._result.size += member.size
        if output is None:
            return
        output.write(_header(name, member, link))
        for data in reader.content():
            output.write(data)
        output.write(bytes(-member.size % tarfile.BLOCKSIZE))

    def _check_links(self) -> None:
        """Refuse links that lead through another: where those end is not known from their text."""
        for name, target in self._links.items():
            parts = target.split("/")
            for depth in range(1, len(parts)):
                if self._kinds.get("/".join(parts[:depth])) is MemberKind.SYMLINK:
                    raise ArchiveError(f"{_shown(name)} links through another link; link to the file itself")

    def _leave_out(self, name: str, reason: str) -> None:
        if len(self._result.left_out) < _MAX_LISTED:
            self._result.left_out.append(f"{printable(name)}: {reason}")
        else:
            self._unlisted += 1


def _link(name: str, member: ArchiveMember) -> str | None:
    """Return the path that a link leads to; None if it is no link. Raises ArchiveError if it leads out."""
    if member.kind not in (MemberKind.SYMLINK, MemberKind.HARD_LINK):
        return None
    target = _decoded(member.target)
    if not target or target.startswith("/"):
        raise ArchiveError(f"{_shown(name)} links to {_shown(target)}, outside; use a relative link, or exclude it")
    if member.kind is MemberKind.HARD_LINK:
        return _clean_name(member.target)
    path = name.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            if not path:
                raise ArchiveError(f"{_shown(name)} links to {_shown(target)}, outside; exclude it")
            path.pop()
        elif part not in ("", "."):
            path.append(part)
    return "/".join(path) or _EVERYTHING


def _header(name: str, member: ArchiveMember, link: str | None) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size = _TYPES[member.kind], member.size
    info.mode = 0o755 if member.executable or member.kind is MemberKind.DIRECTORY else 0o644
    if member.kind is MemberKind.SYMLINK:
        info.mode, info.linkname = 0o777, _decoded(member.target)
    elif link is not None:
        info.linkname = link
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def _clean_name(raw: bytes) -> str:
    """Return a name without what does not count in it. Raises ArchiveError if it leads elsewhere."""
    name = _decoded(raw)
    if not name:
        raise ArchiveError("a member of the archive has no name; make the archive anew")
    if name.startswith("/"):
        raise ArchiveError(f"{_shown(name)} is an absolute path; make the archive with relative ones")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveError(f"{_shown(name)} leads out of the archive; make it without ..")
    if len(parts) > _MAX_DEPTH or any(len(part.encode()) > _MAX_COMPONENT for part in parts):
        raise ArchiveError(f"{_shown(name)} is too deep or too long for a file system; shorten it")
    return "/".join(parts) or _EVERYTHING


def _decoded(raw: bytes) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ArchiveError(f"{show_name(raw)} is not UTF-8; rename it") from None
    if "\0" in text:
        raise ArchiveError(f"{show_name(raw)} contains a NUL; rename it")
    return text


def _shown(name: str) -> str:
    return show_name(name.encode())


def _is_below(name: str, path: str) -> bool:
    path = path.removeprefix("./").rstrip("/")
    return path in ("", _EVERYTHING) or name == path or name.startswith(f"{path}/")


@lru_cache(maxsize=4096)
def _excluding(path: str, patterns: tuple[str, ...]) -> str | None:
    """Return the pattern that a path or a directory above it matches.

    Members of a directory are many and mostly come together: without the cache, an archive of deep paths takes minutes.
    """
    above = path.rpartition("/")[0]
    if above and (found := _excluding(above, patterns)):
        return found
    return next((each for each in patterns if _matches(path, each.rstrip("/"))), None)


def _matches(path: str, pattern: str) -> bool:
    return path == pattern or fnmatchcase(path.rpartition("/")[2], pattern) or fnmatchcase(path, pattern)
