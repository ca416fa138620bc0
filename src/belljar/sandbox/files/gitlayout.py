"""Where git keeps a repository: git directories, the files that lead to them, and their settings. Runs no git.

A working tree's `.git` is a directory, or a file that names one: `.git/worktrees/NAME` of another repository in a
linked worktree, `.git/modules/NAME` in a submodule. A sandbox can have written such a file, and what it names would be
shown to the next one. So it is followed only if the git directory names the working tree in turn: a linked worktree in
its `gitdir`, a submodule in `core.worktree`. An agent that can write to the working tree alone can write to neither.
One that lies in the working tree, as the `.bare` of some, needs no such proof: it shows nothing else.
"""

import os
import re
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from belljar.errors import BelljarError

MAX_ENTRIES: Final = 20_000
"""How many directory entries a search for repositories reads, the topmost first: less than 50 ms."""

_MAX_FILE: Final = 1 << 20
_SECTION: Final = re.compile(r'\[\s*([\w.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')
_SETTING: Final = re.compile(r"([A-Za-z][\w-]*)\s*=\s*(.*)")


class RepositoryError(BelljarError):
    """A repository that git would find outside, and that is not shown inside. The text names the cause and the fix."""


class Repository(NamedTuple):
    """The repository that git finds from a directory."""

    top: Path
    """The top of the working tree."""

    common: Path
    """The git directory that holds the objects. That of a linked worktree is below, in `worktrees`."""


def is_git_directory(path: Path) -> bool:
    """Return whether git would take a directory for one of its own, whatever its name is."""
    return os.path.lexists(path / "HEAD") and ((path / "objects").is_dir() or os.path.lexists(path / "commondir"))


def find_repository(directory: Path) -> Repository | None:
    """Return the repository that git finds from a directory, as git does: upwards, within one file system.

    Raises RepositoryError if it cannot be told safely which git directory that is.
    """
    device = directory.stat().st_dev
    for top in (directory, *directory.parents):
        if top.stat().st_dev != device or is_git_directory(top):
            return None
        link = top / ".git"
        if link.is_symlink() and not link.resolve().is_relative_to(directory):
            raise RepositoryError(
                f"{link} is a symbolic link, which is not followed; put a file in its place that says\n"
                f"gitdir: {link.resolve()}"
            )
        if link.is_dir() and is_git_directory(link):
            return Repository(top, link)
        if link.is_dir():
            # Git searches further up. An agent that removes a HEAD must not be shown the next repository for that.
            raise RepositoryError(
                f"{link} is no git directory, as its HEAD or objects are missing; repair or remove it"
            )
        if link.is_file():
            return Repository(top, _followed(link))
    return None


def git_directories(directory: Path, *, is_complete: bool = False) -> Iterator[tuple[Path, bool]]:
    """Yield the git directories in a directory, itself included, and `.git` files; and whether it is a directory.

    A directory that is called `.git` or has git's settings counts even if git would not take it: an agent can have
    removed its HEAD, for a while, but not its settings. With `is_complete`, too many entries raise RepositoryError.
    """
    waiting, seen = deque([str(directory)]), 0
    while waiting and seen <= MAX_ENTRIES:
        path = waiting.popleft()
        found: dict[str, os.DirEntry[str]] = {}
        with suppress(OSError), os.scandir(path) as entries:
            found = {entry.name: entry for entry in entries}
        seen += len(found)
        if path.endswith("/.git") or _has_git_entries(path, found):
            yield Path(path), True
            continue
        for name, entry in found.items():
            is_directory = entry.is_dir(follow_symlinks=False)
            if name == ".git" and not entry.is_symlink():
                yield Path(entry.path), is_directory
            elif is_directory:
                waiting.append(entry.path)
    if waiting and is_complete:
        raise RepositoryError(
            f"{directory} has more than {MAX_ENTRIES} entries outside of git directories, and not all are searched;\n"
            "remove what does not belong there"
        )


def _has_git_entries(path: str, names: Collection[str]) -> bool:
    if "HEAD" in names and ("objects" in names or "commondir" in names):
        return True
    return "config" in names and any(
        name == "core.repositoryformatversion" for name, _ in settings(Path(path, "config"))
    )


def settings(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the settings in one of git's files, as `section.name` in lower case and the value."""
    section = ""
    lines = iter(_text(file).removeprefix("\ufeff").split("\n"))
    for line in lines:
        rest = line.strip()
        if head := _SECTION.match(rest):
            section, rest = head[1].lower(), rest[head.end() :].strip()
        if setting := _SETTING.match(rest):
            yield f"{section}.{setting[1].lower()}", _value(setting[2], lines)


def has_worktree_settings(common: Path) -> bool:
    """Return whether git reads `config.worktree` beside a repository's settings."""
    return any(name == "extensions.worktreeconfig" for name, _ in settings(common / "config"))


def main_working_tree_of(git: Path) -> Path:
    """Return the top of the working tree of a git directory: the directory around it, unless set otherwise."""
    trees = [value for name, value in settings(git / "config") if name == "core.worktree"]
    return Path(os.path.normpath(git / trees[-1])) if trees else git.parent


def working_tree_of(administration: Path) -> Path | None:
    """Return the top of a linked worktree, by its directory in `.git/worktrees`."""
    named = _text(administration / "gitdir").strip()
    return Path(os.path.normpath(administration / named)).parent if named else None


def _followed(link: Path) -> Path:
    """Return the git directory with the objects to which a `.git` file leads, if that leads back to it."""
    named = _text(link).strip().removeprefix("gitdir:").strip()
    git = Path(os.path.normpath(link.parent / named))
    if named and git.resolve() == git and is_git_directory(git):
        if git.is_relative_to(link.parent):
            return git
        common = git.parent.parent
        is_linked = git.parent.name == "worktrees" and is_git_directory(common)
        named_common = Path(os.path.normpath(git / _text(git / "commondir").strip()))
        if is_linked and named_common == common and working_tree_of(git) == link.parent:
            return common
        if not is_linked and main_working_tree_of(git) == link.parent:
            return git
    raise RepositoryError(
        f"{link} leads to {git}, which does not lead back to it;\n"
        f"if that is the repository, repair it (git worktree repair), or show it inside: --bind {git}"
    )


def _text(file: Path) -> str:
    with suppress(OSError), file.open("rb") as opened:
        return opened.read(_MAX_FILE).decode(errors="surrogateescape")
    return ""


def _value(text: str, lines: Iterator[str]) -> str:
    """Return the value that git reads in the rest of a line, and in those that a backslash continues it on."""
    value, end, is_quoted = "", 0, False
    characters = iter(text)
    while character := next(characters, ""):
        if character == "\\":
            character = next(characters, "")
            if not character:
                characters = iter(next(lines, "").rstrip())
                continue
            character = {"n": "\n", "t": "\t", "b": "\b"}.get(character, character)
        elif character == '"':
            is_quoted = not is_quoted
            continue
        elif character in "#;" and not is_quoted:
            break
        value += character
        if is_quoted or not character.isspace():
            end = len(value)  # spaces at the end count in quotes only
    return value[:end]
