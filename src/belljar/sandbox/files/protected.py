"""Places in a working directory from which the host's own tools run code, or take orders, later and outside.

An agent that can write there is out of its sandbox as soon as its user types `git status` or opens an editor. Those
that exist are read-only inside. Those that do not exist can be made: only a file on the host's disk could keep a name
from being taken, and most tools would obey that. (Those of git have a content that means nothing, and are made:
`belljar.sandbox.files.gitplaces`.) The others are reported at the end (`belljar.sandbox.files.changes`).
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

PLACES: Final = (
    # git runs hooks, and its settings name programs. `gitplaces` knows more of it, wherever a repository is.
    ".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git/rebase-merge", ".git/sequencer",
    ".husky", ".pre-commit-config.yaml",
    # Shells and tools that read a file when somebody enters the directory.
    ".envrc", ".mise.toml", "mise.toml", ".tool-versions",
    # Editors run tasks and start servers.
    ".vscode", ".idea", ".zed", ".devcontainer",
    # Agents run hooks and start servers, too.
    ".claude", ".mcp.json", ".codex", ".cursor", ".gemini", ".opencode", "opencode.json",
    # Package managers run the program that a setting names.
    ".npmrc", ".yarnrc.yml", ".pnpmfile.cjs",
    # A working directory can be somebody's home.
    ".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".zprofile", ".config", ".ssh",
)  # fmt: skip


def existing(workdir: Path, allowed: Iterable[Path] = (), others: Iterable[Path] = ()) -> list[Path]:
    """Return the places that are there and are not to be written to; `others` are some more. None is in another.

    Of a symbolic link, it is the place that it leads to. The link itself can be replaced by an agent, and where it
    leads out of the working directory there is nothing else to protect.
    """
    exempt = [workdir / path for path in allowed]
    places = [workdir / place for place in (*PLACES, *_submodules(workdir), *_git_link(workdir))]
    places = [path for path in places if not any(map(path.is_relative_to, exempt))]
    real = (path.resolve() for path in (*places, *others) if os.path.lexists(path))
    found = dict.fromkeys(path for path in real if workdir in path.parents and path.exists())
    return [path for path in found if found.keys().isdisjoint(path.parents)]


def with_other_names(places: Iterable[Path]) -> Iterator[Path]:
    """Yield the files in protected places that could be written to under another name (hard links)."""
    for place in places:
        for path in place.iterdir() if place.is_dir() else [place]:
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
                yield path


def other_names_in(directory: Path, places: Iterable[Path]) -> Iterator[Path]:
    """Yield what is in a directory, but not in certain places there, and is the same file as one that is (hard links).

    An installer may have made hard links to all files of an installation, from a cache that is nobody's business here.
    """
    kept = set(map(str, places))
    linked = {
        (entry.inode(), status.st_dev)
        for place in kept
        for entry in _files_in(place, frozenset())
        if (status := entry.stat(follow_symlinks=False)).st_nlink > 1
    }
    numbers = {inode for inode, _ in linked}
    for entry in _files_in(str(directory), kept) if linked else ():
        if entry.inode() in numbers and (entry.inode(), entry.stat(follow_symlinks=False).st_dev) in linked:
            yield Path(entry.path)


def _files_in(directory: str, left_out: Collection[str]) -> Iterator["os.DirEntry[str]"]:
    waiting = [directory]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:  # a file, or closed to us, and so to a sandbox
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    yield entry
                elif entry.path not in left_out:
                    waiting.append(entry.path)


def pinned(workdir: Path, places: Iterable[Path]) -> list[Path]:
    """Return the directories above protected places that must not be moved away, the outermost first.

    A directory with a mount below it can be renamed, and another put in its place; one that is itself a mount cannot.
    """
    found = {parent for place in places for parent in place.parents if parent != workdir and workdir in parent.parents}
    return sorted(found, key=lambda path: len(path.parts))


def _git_link(workdir: Path) -> list[str]:
    """Return the file that says where a repository is, if it is elsewhere."""
    return [".git"] if (workdir / ".git").is_file() else []


def _submodules(workdir: Path) -> Iterator[str]:
    """Yield the hooks and settings of a repository's submodules."""
    modules = workdir / ".git" / "modules"
    for directory, names, files in os.walk(modules):
        found = [name for name in ("hooks", "config") if name in names or name in files]
        if "config" in files:  # a repository; others may lie below, in `modules`
            names[:] = [name for name in names if name == "modules"]
            yield from (str((Path(directory) / name).relative_to(workdir)) for name in found)
