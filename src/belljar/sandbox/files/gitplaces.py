"""What the host's git runs or follows in a git directory, and an agent must therefore not write to.

An agent works in a repository: it writes objects, refs, the index and HEAD, and git replaces the latter by renaming
files in the git directory. So the directory is writable, and what git takes orders from is read-only in it: settings,
hooks, the files that lead to another git directory, and the state of a stopped rebase, whose `exec` lines `git rebase
--continue` runs. A linked worktree that the sandbox does not work in is read-only as a whole.

Git directories whose own places are behind symbolic links are refused: no mount keeps a link from being replaced.

A mount can protect only what is there. What is missing and would be obeyed is therefore made, with the content that
means to git what its absence means: a `hooks` directory without hooks, a `commondir` that names its own directory, and
empty settings (`gitnamed` does the same for what settings name). They stay behind: removing them at the end of one
sandbox would open them to another one in the same repository. In a bare repository in a working tree, which may be
somebody's test data, nothing is made.
"""

import errno
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError
from belljar.linux.files.trusted import links_on
from belljar.sandbox.files.gitlayout import (
    git_directories,
    has_worktree_settings,
    is_git_directory,
    main_working_tree_of,
    settings,
    working_tree_of,
)
from belljar.sandbox.files.gitnamed import named_in_settings, occupy

PLACES: Final = ("hooks", "config", "config.worktree", "commondir", "gitdir", "rebase-merge", "sequencer")

_OF_THE_WORKING_TREE: Final = ("HEAD", "index")
_TRUE: Final = {"true", "yes", "on", "1"}

OWN_COMMON_DIRECTORY: Final = b"./\n"
"""A `commondir` that says what is true without one, to git, libgit2 and gitoxide. Without the slash, libgit2 fails."""


class GitPlaceError(BelljarError):
    """A repository that cannot be protected. The text says why, and what to do."""


def protect(root: Path, writable: Collection[Path], is_exempt: Callable[[Path], bool]) -> list[Path]:
    """Return the places in a writable directory that the host's git runs or follows; make those that are missing.

    `writable` are all the directories that the sandbox can write to. Raises GitPlaceError.
    """
    if (root / ".git").is_symlink():
        _refuse_link(root / ".git", "a file with the line `gitdir: {}` means the same", is_exempt)
    found: list[Path] = []
    for path, is_directory in git_directories(root):
        if is_directory:
            _refuse_links(path, is_exempt)
            is_completed = path == root or path.name == ".git" or (path / "worktrees").is_dir()
            if is_completed:
                _complete_all(path, root.stat().st_uid, is_exempt)
            found += _in_git_directory(path, writable)
            found += _named(path, writable, is_exempt, is_completed=is_completed)
        else:
            found.append(path)
    return [place for place in found if not is_exempt(place)]


def _refuse_links(git: Path, is_exempt: Callable[[Path], bool]) -> None:
    for directory in (git, *_worktrees(git), *_modules(git)):
        for link in (directory / name for name in (*PLACES, "worktrees", "modules")):
            if link.is_symlink():
                _refuse_link(link, "for hooks, `git config core.hooksPath {}` does the same", is_exempt)


def _refuse_link(link: Path, instead: str, is_exempt: Callable[[Path], bool]) -> None:
    if not is_exempt(link):
        raise GitPlaceError(
            f"{link} is a symbolic link, which a sandbox could replace, and git outside would follow;\n"
            f"put what it leads to in its place ({instead.format(link.resolve())}), or let it be changed: "
            f"--allow-write {link}"
        )


def ignored_beside_commondir(git: Path) -> str | None:
    """Return what is wrong with making a `commondir`, and what to do: git ignores two settings of where one is.

    Without core.bare, it takes the directory around a repository of linked worktrees for another working tree. Of a
    submodule, it finds the working tree by the `.git` file.
    """
    if os.path.lexists(git / "commondir") or has_worktree_settings(git):
        return None
    values, main = dict(settings(git / "config")), main_working_tree_of(git)
    is_submodule = any(path.name == "modules" and is_git_directory(path.parent) for path in git.parents)
    if values.get("core.bare", "").lower() in _TRUE and _worktrees(git):
        name, value = "core.bare", "true"
    elif main != git.parent and not is_submodule:
        name, value = "core.worktree", shlex.quote(str(main))
    else:
        return None
    command = f"git --git-dir={shlex.quote(str(git))} config"
    return (
        f"{git / 'config'} sets {name}, which git ignores beside a commondir, and without one a sandbox could mislead "
        f"git;\nset it where it counts: {command} extensions.worktreeConfig true && "
        f"{command} --worktree {name} {value} && {command} --unset {name}"
    )


def git_directory_that_runs(path: Path) -> Path | None:
    """Return the git directory that a path lies in, if it is a place that the host's git runs or follows."""
    git = next(filter(is_git_directory, path.parents), None)
    return git if git is not None and path.relative_to(git).parts[0] in PLACES else None


def _in_git_directory(git: Path, writable: Collection[Path]) -> Iterator[Path]:
    yield from (git / name for name in PLACES)
    if git.name == ".git" and not _is_worked_in(main_working_tree_of(git), git, writable):
        yield from (git / name for name in _OF_THE_WORKING_TREE)
    for worktree in _worktrees(git):
        top = working_tree_of(worktree)
        if top is not None and _is_worked_in(top, git, writable):
            yield from (worktree / name for name in PLACES)
            yield from _in_modules(worktree, writable)
        else:
            yield worktree
    yield from _in_modules(git, writable)


def _in_modules(git: Path, writable: Collection[Path]) -> Iterator[Path]:
    for module in _modules(git):
        yield from _in_git_directory(module, writable)


def _named(
    git: Path, writable: Collection[Path], is_exempt: Callable[[Path], bool], *, is_completed: bool
) -> Iterator[Path]:
    """Yield what settings name for the working trees of a repository; make what is missing where it can be made."""
    for common, administration, top in _working_trees(git, writable):
        for named, is_directory in named_in_settings(common, administration, top):
            for link in (link for link in links_on(named) if any(map(link.is_relative_to, writable))):
                _refuse_link(link, "`git config core.hooksPath {}` may do the same", is_exempt)
            place = Path(os.path.realpath(named))
            roots = [root for root in writable if root in place.parents and root.is_dir()]
            if is_completed and roots and not is_exempt(place):
                root = max(roots, key=lambda root: len(root.parts))
                make = partial(_make, owner=root.stat().st_uid)
                yield occupy(root, place, None if is_directory else b"", make)
            else:
                yield place


def _working_trees(git: Path, writable: Collection[Path]) -> Iterator[tuple[Path, Path, Path]]:
    """Yield the git directory, the one of the working tree and its top, for those that a sandbox can work in."""
    yield git, git, main_working_tree_of(git)
    for worktree in _worktrees(git):
        top = working_tree_of(worktree)
        if top is not None and _is_worked_in(top, git, writable):
            yield git, worktree, top
            for module in _modules(worktree):
                yield from _working_trees(module, writable)
    for module in _modules(git):
        yield from _working_trees(module, writable)


def _is_worked_in(top: Path, git: Path, writable: Collection[Path]) -> bool:
    """Return whether a part of a working tree can be written to, and not just its git directory."""
    roots = [root for root in writable if not root.is_relative_to(git)]
    return not top.is_relative_to(git) and any(top.is_relative_to(root) or root.is_relative_to(top) for root in roots)


def _worktrees(git: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in (git / "worktrees").iterdir() if path.is_dir() and not path.is_symlink())
    return []


def _modules(git: Path) -> Iterator[Path]:
    """Yield the git directories of a repository's submodules, whose names may have slashes."""
    if (git / "modules").is_dir() and not (git / "modules").is_symlink():
        yield from (path for path, is_directory in git_directories(git / "modules", is_complete=True) if is_directory)


def _complete_all(git: Path, owner: int, is_exempt: Callable[[Path], bool]) -> None:
    if not (is_git_directory(git) or os.path.lexists(git / "config")):
        return
    if not is_exempt(git / "commondir") and (problem := ignored_beside_commondir(git)):
        raise GitPlaceError(f"{problem}\n(or let a sandbox make one: --allow-write {git / 'commondir'})")
    common_places: dict[str, bytes | None] = {"hooks": None, "commondir": OWN_COMMON_DIRECTORY, "config": b""}
    places: dict[str, bytes | None] = {"config.worktree": b""} if has_worktree_settings(git) else {}
    _complete(git, common_places | places, owner, is_exempt)
    for worktree in _worktrees(git):
        with suppress(FileNotFoundError):  # removed meanwhile
            _complete(worktree, places, owner, is_exempt)
    for module in (module for directory in (git, *_worktrees(git)) for module in _modules(directory)):
        _complete_all(module, owner, is_exempt)


def _complete(git: Path, places: Mapping[str, bytes | None], owner: int, is_exempt: Callable[[Path], bool]) -> None:
    directory = os.open(git, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if Path(f"/proc/self/fd/{directory}").readlink() != git:
            raise GitPlaceError(f"{git} was moved while the sandbox was made; try again")
        for name, content in places.items():
            if not is_exempt(git / name):
                _make(directory, git / name, content, owner)
    finally:
        os.close(directory)


def _make(directory: int, place: Path, content: bytes | None, owner: int) -> None:
    """Make a file, or a directory if there is no content, as one of the directory's owner. Leave what is there."""
    around = os.fstat(directory)
    try:
        if content is None:
            os.mkdir(place.name, 0o755, dir_fd=directory)
        else:
            _write(directory, place.name, content)
        if around.st_uid != os.geteuid():
            os.chown(place.name, around.st_uid, around.st_gid, dir_fd=directory, follow_symlinks=False)
    except FileExistsError:
        pass
    except OSError as error:
        # An agent cannot make it there either, unless it is the owner: in a container, it need not be who we are.
        is_out_of_reach = error.errno == errno.EROFS or (error.errno == errno.EACCES and around.st_uid != owner)
        if not is_out_of_reach:
            raise GitPlaceError(
                f"{place} is missing, and cannot be made ({error.strerror}), so git outside could be misled by "
                "one that the sandbox makes;\n"
                f"run Belljar as a user who can write to {place.parent}, or show it with --ro-bind"
            ) from error


def _write(directory: int, name: str, content: bytes) -> None:
    opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=directory)
    try:
        os.write(opened, content)
    except OSError:
        os.unlink(name, dir_fd=directory)  # git takes an empty one for broken
        raise
    finally:
        os.close(opened)
