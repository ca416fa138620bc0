"""What a sandbox has left in its working directory that the host might run: executables, and places it runs code from.

A file's change time is the kernel's, and nobody can set it. So nothing has to be remembered from before.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from belljar.sandbox.files.gitlayout import RepositoryError, find_repository, git_directories
from belljar.sandbox.files.gitplaces import OWN_COMMON_DIRECTORY
from belljar.sandbox.files.gitplaces import PLACES as GIT_PLACES
from belljar.sandbox.files.protected import PLACES

MOST_FILES: Final = 200_000
"""How many files are looked at before a summary would take too long."""

_DATA: Final = {".git/objects", ".git/lfs"}
_GIT_DATA: Final = {"objects", "lfs"}
_GIT_SETTINGS: Final = {"config", "config.worktree", "commondir"}


class Changes(NamedTuple):
    """What was changed and could be run, by its path in the working directory."""

    names: list[str]
    complete: bool
    """Whether everything was looked at."""


def runnable_changes(workdir: Path, since_ns: int) -> Changes:
    """Look for what was changed since then and could be run."""
    looker = _Looker(workdir)
    changed = ((name, status.st_mode) for name, status in looker.files() if status.st_ctime_ns >= since_ns)
    return Changes(sorted(name for name, mode in changed if _may_run(workdir, name, mode)), looker.complete)


def changed_places(workdir: Path, since_ns: int, allowed: Iterable[Path] = ()) -> list[str]:
    """Return the protected places that are new, or have changed, since then; and repositories, which have such places.

    Quick: only repositories are searched for, and not for long.
    """
    exempt = [workdir / path for path in allowed]
    places = (*(workdir / place for place in PLACES), *_places_of_git(workdir))
    changed = dict.fromkeys(place for place in places if _changed_since(place, since_ns) and not _is_neutral(place))
    shown = (place for place in changed if not any(map(place.is_relative_to, exempt)))
    return [str(place.relative_to(workdir) if place.is_relative_to(workdir) else place) for place in shown]


def remove_git_links(workdir: Path, since_ns: int, allowed: Iterable[Path] = ()) -> list[str]:
    """Remove the symbolic links in git directories that are new since then; return them, with where they led.

    Git outside would write through them, or delete what they lead to. It makes none itself.
    """
    exempt = [workdir / path for path in allowed]
    new = (place for place in _places_of_git(workdir) if place.is_symlink() and _changed_since(place, since_ns))
    shown = (place for place in dict.fromkeys(new) if not any(map(place.is_relative_to, exempt)))
    return [f"{place} -> {target}" for place in shown if (target := _remove_link(place)) is not None]


def _remove_link(link: Path) -> str | None:
    """Remove a symbolic link; return where it led, or None if it is left. No link on the way to it is followed."""
    try:
        directory = os.open(link.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if Path(f"/proc/self/fd/{directory}").readlink() != link.parent:
            return None
        target = os.readlink(link.name, dir_fd=directory)
        if link.name == "HEAD" and target.startswith("refs/"):
            return None  # with core.preferSymlinkRefs, git makes this one
        os.unlink(link.name, dir_fd=directory)
    except OSError:
        return None
    else:
        return target
    finally:
        os.close(directory)


def _places_of_git(workdir: Path) -> Iterator[Path]:
    """Yield what git runs or follows, in the repository around the working directory and in those below it."""
    with suppress(RepositoryError):
        repository = find_repository(workdir)
        if repository is not None and not repository.common.is_relative_to(workdir):
            yield from _places_in(repository.common)
    for path, is_directory in git_directories(workdir):
        yield from _places_in(path) if is_directory else (path,)


def _places_in(git: Path) -> Iterator[Path]:
    modules = [path for path, is_directory in git_directories(git / "modules") if is_directory]
    directories = (git, *git.glob("worktrees/*"), *modules)
    yield from (directory / name for directory in directories for name in GIT_PLACES)
    # Not by their names alone: a branch can have them, too.
    yield from _links_in(git, {f"{directory}/{name}" for directory in directories for name in _GIT_DATA})


def _links_in(git: Path, left_out: Collection[str]) -> Iterator[Path]:
    """Yield the symbolic links in a git directory: git writes through that of a log, and deletes what others lead to.

    Git makes none itself, and nothing keeps an agent from making one. Too many entries are as good as a link.
    """
    waiting, seen = [str(git)], 0
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                seen += 1
                if entry.is_symlink():
                    yield Path(entry.path)
                elif entry.path not in left_out and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
        if seen > MOST_FILES:
            yield git
            return


def _is_neutral(path: Path) -> bool:
    """Return whether a place means to git what its absence means, such as one that was made to be protected."""
    if path.name not in GIT_PLACES or path.is_symlink():
        return False
    try:
        if path.is_dir():
            return all(entry.suffix == ".sample" for entry in path.iterdir())
        return path.stat().st_size <= len(OWN_COMMON_DIRECTORY) and path.read_bytes() in {b"", OWN_COMMON_DIRECTORY}
    except OSError:
        return False


def _changed_since(path: Path, since_ns: int) -> bool:
    try:
        return path.lstat().st_ctime_ns >= since_ns
    except OSError:
        return False


class _Looker:
    """Looks at every file below a directory that somebody hostile has filled: without recursion, and not for ever."""

    def __init__(self, workdir: Path) -> None:
        self._workdir = workdir
        self.complete = True

    def files(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield whatever is no directory, by its path in the working directory."""
        waiting, seen = [""], 0
        while waiting:
            directory = waiting.pop()
            for entry in self._entries(directory):
                if (seen := seen + 1) > MOST_FILES:
                    self.complete = False
                    return
                name = f"{directory}{entry.name}"
                if not entry.is_dir(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        yield name, entry.stat(follow_symlinks=False)
                elif name not in _DATA:
                    waiting.append(f"{name}/")

    def _entries(self, directory: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self._workdir / directory) as entries:
                return list(entries)
        except OSError:  # closed to us, or its path too long
            self.complete = False
            return []


def _may_run(workdir: Path, name: str, mode: int) -> bool:
    """Tell whether a file can be run, or whether the host's tools would do so in the directory that it is made for."""
    if stat.S_ISREG(mode) and mode & 0o111:
        return True
    above, _, last = name.rpartition("/")
    if last == ".git" or (last in _GIT_SETTINGS and os.path.lexists(workdir / above / "HEAD")):
        return True  # of a repository, wherever it is and whatever its directory is called
    parts = name.split("/")
    tails = ["/".join(parts[start:]) for start in range(len(parts))]
    return any(tail == place or tail.startswith(f"{place}/") for tail in tails for place in PLACES)
