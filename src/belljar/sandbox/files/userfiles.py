"""What of the user's own files a sandbox sees: the working directory, its repository and what was named.

Wherever the sandbox can write, what runs outside later stays as it is: places that tools run code from (`protected`),
git directories (`gitplaces`), and Belljar itself (`ownplaces`).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from belljar.sandbox.files import gitlayout, gitplaces, ownplaces, protected
from belljar.sandbox.files.workdirs import ViewError, check_workdir, refuse_engines
from belljar.sandbox.spec import Bind, SandboxSpec
from belljar.statedir import known_states


class UserFiles(NamedTuple):
    """Parts of the host's files, in the order in which they are mounted."""

    around: tuple[Bind, ...]
    """The rest of the working tree around the working directory, read-only, so that git sees all of its files."""

    binds: tuple[Bind, ...]
    """The working directory, its git directory and what was named, with what must not be changed in them."""


def user_files(spec: SandboxSpec, workdir: Path | None) -> UserFiles:
    """Return what a sandbox sees of the user's own files. Raises ViewError."""
    around, own = _with_repository(spec, workdir) if workdir is not None else ((), [])
    # Engines mount the topmost first, whatever the order. So everybody does, and deeper ones are not hidden.
    binds = sorted((*own, *spec.binds), key=lambda bind: len(bind.target.parts))
    _check_all(binds)
    roots = [bind.source for bind in binds if bind.writable]
    exempt = [(workdir or Path("/")) / path for path in spec.allow_write]
    # The settings of one repository may name something in another root.
    git_places = [place for root in roots for place in _git_places(root, roots, exempt)]
    kept = {place: None for root in roots for place in _kept_in(root, spec, workdir, exempt, git_places)}
    parts = [part for bind in binds for part in (bind, *(_protected(bind, kept) if bind.writable else ()))]
    return UserFiles(around, tuple(_without_hidden(parts)))


def _protected(bind: Bind, kept: Iterable[Path]) -> Iterator[Bind]:
    """Yield what must not be changed in something writable, after what must not be moved away."""
    there = [place for place in kept if bind.source in place.parents]
    there = [place for place in there if set(there).isdisjoint(place.parents)]
    for writable, places in ((True, protected.pinned(bind.source, there)), (False, there)):
        for place in places:
            yield Bind(place, bind.target / place.relative_to(bind.source), writable=writable)


def _without_hidden(parts: Sequence[Bind]) -> list[Bind]:
    """Leave out mounts that a later one hides: an engine would mount these on top of it."""
    visible: list[Bind] = []
    places: set[Path] = set()
    for part in reversed(parts):
        if places.isdisjoint((part.target, *part.target.parents)):
            visible.append(part)
            places.add(part.target)
    return visible[::-1]


def repository_problem(spec: SandboxSpec) -> str | None:
    """Return why git does not find inside what it finds outside, and what to do about it."""
    try:
        if spec.workdir is not None:
            _usable_repository(spec.workdir)
    except gitlayout.RepositoryError as error:
        return str(error)
    return None


def _with_repository(spec: SandboxSpec, workdir: Path) -> tuple[tuple[Bind, ...], list[Bind]]:
    """Return the working tree around the working directory; and that directory, after its git directory."""
    check_workdir(workdir)
    own = [Bind(workdir, workdir, writable=True)]
    try:
        repository = _usable_repository(workdir) if workdir == spec.workdir else None
    except gitlayout.RepositoryError:
        repository = None
    if repository is None:
        return (), own
    top, common = repository

    def is_shown(path: Path) -> bool:
        return any(path.is_relative_to(place) for place in (workdir, *(bind.target for bind in spec.binds)))

    if not is_shown(common):
        own.insert(0, Bind(common, common, writable=True))
    return () if is_shown(top) else (Bind(top, top, writable=False),), own


def _usable_repository(workdir: Path) -> gitlayout.Repository | None:
    """Return the repository around a working directory, if it may be shown. Raises RepositoryError."""
    repository = gitlayout.find_repository(workdir)
    if repository is None or repository.common.is_relative_to(workdir):
        return None
    if problem := gitplaces.ignored_beside_commondir(repository.common):
        raise gitlayout.RepositoryError(problem)
    owner = workdir.stat().st_uid
    for place in repository:
        if place.stat().st_uid != owner:
            raise gitlayout.RepositoryError(f"{place} belongs to another user than {workdir}; change that (chown)")
        if any(state.is_relative_to(place) for state in map(Path.resolve, known_states(os.environ)) if state.exists()):
            raise gitlayout.RepositoryError(f"a server keeps its state in {place}; let it keep it elsewhere")
    try:
        check_workdir(repository.top)
    except ViewError as error:
        raise gitlayout.RepositoryError(
            f"the repository that {workdir} is in cannot be shown: {error}".replace("the working directory ", "")
        ) from None
    return repository


def _check_all(binds: Iterable[Bind]) -> None:
    """Refuse what cannot be shown, or not where it is to be shown. Raises ViewError."""
    writable: dict[Path, Path] = {}  # by where it is seen, where it is
    for bind in binds:
        try:
            bind.source.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ViewError(f"{bind.source} cannot be shown inside: {reason}; check the path") from None
        refuse_engines(bind.source)
        if not bind.target.is_absolute() or ".." in bind.target.parts or bind.target == Path("/"):
            raise ViewError(f"nothing can be shown at {bind.target}; name a place by its path from the root")
        for target, source in writable.items():
            if target in bind.target.parents:
                _check_mount_point(source / bind.target.relative_to(target))
        if bind.writable:
            writable[bind.target] = bind.source


def _git_places(root: Path, roots: list[Path], exempt: list[Path]) -> list[Path]:
    """Return what the host's git runs or follows in something writable. Raises ViewError."""

    def is_exempt(place: Path) -> bool:
        return any(map(place.is_relative_to, exempt))

    git = gitplaces.git_directory_that_runs(root)
    if git is not None and not is_exempt(root):
        raise ViewError(
            f"{root} cannot be written to from a sandbox: the host's git runs what is there, or takes orders from "
            f"it;\nshow it with --ro-bind, or show the repository, whose other files can be written to: --bind {git}"
        )
    try:
        return gitplaces.protect(root, roots, is_exempt) if root.is_dir() else []
    except (gitlayout.RepositoryError, gitplaces.GitPlaceError) as error:
        raise ViewError(str(error)) from error


def _kept_in(
    root: Path, spec: SandboxSpec, workdir: Path | None, exempt: list[Path], git_places: list[Path]
) -> list[Path]:
    """Return what must not be changed in something writable. Raises ViewError."""
    others = [*spec.keep, *_own_places(root, spec.allow_write if root == workdir else ()), *git_places]
    kept = protected.existing(root, exempt, others)
    for path in protected.with_other_names(kept):
        raise ViewError(
            f"{path} is to stay as it is, but has another name (a hard link) under which it could be changed;\n"
            f"replace it by a copy (cp {path} copy && mv copy {path}), or let it be changed with --allow-write"
        )
    return kept


def _own_places(directory: Path, allowed: Iterable[Path] = ()) -> list[Path]:
    try:
        places = ownplaces.kept_in(directory, os.environ, allowed)
    except ownplaces.OwnPlaceError as error:
        raise ViewError(str(error)) from None
    for path in protected.other_names_in(directory, places):
        raise ViewError(
            f"{path} is another name (a hard link) of a file that Belljar itself is made of;"
            "\nremove it, or have the installer make copies (uv: --link-mode copy)"
        )
    return places


def _check_mount_point(place: Path) -> None:
    """Have a place in a writable directory be there, without a link on the way: an agent can make one to anywhere."""
    if place.resolve() != place or not place.exists():
        raise ViewError(
            f"nothing can be shown at {place}: it is not there, or there is a link on the way; make it first"
        )
