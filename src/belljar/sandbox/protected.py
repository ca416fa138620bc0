"""Places in a working directory from which the host's own tools run code, or take orders, later and outside.

An agent that can write there is out of its sandbox as soon as its user types `git status` or opens an editor. Those
that exist are read-only inside.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PLACES: Final = (
    # git runs hooks, and its settings name programs.
    ".git/hooks", ".git/config", ".git/config.worktree", ".husky", ".pre-commit-config.yaml",
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


def existing(workdir: Path, allowed: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield the places that are there and are not to be written to.

    Symbolic links are left out: where they lead is read-only or not there, unless it is in the working directory, and
    there it can be changed without the link.
    """
    exempt = {workdir / path for path in allowed}
    for place in (*PLACES, *_submodules(workdir)):
        path = workdir / place
        if not path.is_symlink() and path.exists() and not any(path.is_relative_to(one) for one in exempt):
            yield path


def pinned(workdir: Path, places: Iterable[Path]) -> list[Path]:
    """Return the directories above protected places that must not be moved away, the outermost first.

    A directory with a mount below it can be renamed, and another put in its place; one that is itself a mount cannot.
    """
    found = {parent for place in places for parent in place.parents if parent != workdir and workdir in parent.parents}
    return sorted(found, key=lambda path: len(path.parts))


def _submodules(workdir: Path) -> Iterator[str]:
    """Yield the hooks and settings of a repository's submodules."""
    modules = workdir / ".git" / "modules"
    for directory, names, files in os.walk(modules):
        found = [name for name in ("hooks", "config") if name in names or name in files]
        if "config" in files:  # a repository; others may lie below, in `modules`
            names[:] = [name for name in names if name == "modules"]
            yield from (str((Path(directory) / name).relative_to(workdir)) for name in found)
