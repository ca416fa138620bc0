"""What of the host a sandbox sees: its system, read-only; the working directory; no home, no secrets, no sockets."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from belljar.errors import BelljarError
from belljar.sandbox.files import ownplaces, protected, sockets
from belljar.sandbox.files.homes import homes_of_user
from belljar.sandbox.spec import Bind, SandboxSpec

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu")
"""The directories that programs are in."""

_SHARED: Final = ("/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "/proc", "/sys", "/home")  # noqa: S108 - no use of it
"""Directories that have something of everybody's in them, other programs' sockets for one."""

_KERNEL: Final = ("/dev", "/proc", "/sys")
_MEMORY: Final = "/dev/shm"  # noqa: S108 - no use of it

OURS: Final = Path("/run/belljar")
"""Where files of ours are."""

POLICY_FILE: Final = OURS / "policy.json"
"""Where an agent reads what it may reach."""

_TOOLS: Final = {
    ".pyenv": (".pyenv",),
    ".nvm": (".nvm",),
    ".volta": (".volta",),
    ".bun/bin": (".bun/bin", ".bun/install/global"),
    ".deno/bin": (".deno/bin",),
    ".cargo/bin": (".cargo/bin", ".rustup"),
    "go/bin": ("go/bin",),
    ".npm-global": (".npm-global",),
    ".opencode/bin": (".opencode/bin",),
    ".claude/local": (".claude/local",),
    ".local/share/mise": (".local/share/mise/installs", ".local/share/mise/shims"),
    ".asdf": (".asdf/bin", ".asdf/installs", ".asdf/lib", ".asdf/plugins", ".asdf/shims"),
    ".local/bin": (
        ".local/bin",
        ".local/lib",
        ".local/pipx",
        ".local/share/claude",
        ".local/share/pipx",
        ".local/share/uv/python",
        ".local/share/uv/tools",
    ),
}
"""Programs that people keep at home: a directory on the PATH, and what works only together with it."""

NETWORK_FILES: Final = {
    Path("/etc/resolv.conf"): "nameserver 127.0.0.1\noptions edns0\n",
    Path("/etc/hosts"): "127.0.0.1 localhost belljar\n::1 localhost\n",
}
"""How a sandbox finds names: by asking, and whom it asks is not its choice."""

_FILES: Final = {
    **NETWORK_FILES,
    Path("/etc/nsswitch.conf"): "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}


class ViewError(BelljarError):
    """What was asked for cannot be shown inside."""


class View(NamedTuple):
    """A file system, in the order in which it is put together."""

    links: Mapping[Path, str]
    """Symbolic links at the top, such as /bin."""

    system: tuple[Bind, ...]
    """Directories of the host, read-only, at their own places."""

    home: Path
    """An empty directory that vanishes with the sandbox."""

    tools: tuple[Bind, ...]
    """Programs that the user keeps at home, read-only."""

    binds: tuple[Bind, ...]
    """What was named. A socket that somebody listens at works in it, and in nothing else of the host's."""

    files: Mapping[Path, bytes]
    """Small read-only files that exist inside only."""

    scratch: Bind | None = None
    """A directory of our own to work in, writable; where it is on the host is nobody's business inside."""


def view_of(spec: SandboxSpec, workdir: Path, home: Path, files: Mapping[Path, bytes]) -> View:
    """Return what a sandbox sees that works in a directory of the host. `files` are some of its own beside those that
    were asked for. Raises ViewError."""
    system = [Path(place) for place in SYSTEM]
    binds = (*project(workdir, spec), *checked(spec.binds, workdir, spec.keep))
    files = {path: text.encode() for path, text in _replaced()} | {**spec.files, **files}
    _check_free(files, binds)
    return View(
        links={path: str(path.readlink()) for path in system if path.is_symlink()},
        system=tuple(Bind(path, path, writable=False) for path in system if path.is_dir() and not path.is_symlink()),
        home=home,
        tools=tuple(_tools(home, spec.environment.get("PATH", ""))),
        binds=binds,
        files=files,
    )


def project(workdir: Path, spec: SandboxSpec) -> tuple[Bind, ...]:
    """Return the working directory as it is shown, with what must not be changed in it. Raises ViewError."""
    check_workdir(workdir)
    ours = _own_places(workdir, spec.allow_write)
    kept = protected.existing(workdir, spec.allow_write, (*spec.keep, *ours))
    for path in protected.with_other_names(kept):
        raise ViewError(
            f"{path} is to stay as it is, but has another name (a hard link) under which it could be changed;\n"
            f"replace it by a copy (cp {path} copy && mv copy {path}), or let it be changed with --allow-write"
        )
    return (
        Bind(workdir, workdir, writable=True),
        *(Bind(path, path, writable=True) for path in protected.pinned(workdir, kept)),
        *(Bind(path, path, writable=False) for path in kept),
    )


def check_workdir(workdir: Path) -> None:
    """Refuse a working directory that holds what is no project's. Raises ViewError."""
    if not os.access(workdir, os.R_OK | os.X_OK) or not workdir.is_dir():
        raise ViewError(
            f"the working directory {workdir} is not there, no directory, or closed to you; name another with --workdir"
        )
    if any(home.is_relative_to(workdir) for home in homes_of_user(os.environ)):
        raise ViewError(
            f"the working directory {workdir} holds your home directory, and with it your keys and passwords;\n"
            "go to a project's directory, or name one with --workdir"
        )
    if any(Path(place).is_relative_to(workdir) for place in (*_SHARED, f"/run/user/{os.getuid()}")):
        raise ViewError(
            f"the working directory {workdir} holds files and sockets of all your programs; go to a directory in it,\n"
            "or name one with --workdir"
        )
    if any(map(workdir.is_relative_to, (*SYSTEM, *_KERNEL))) and not workdir.is_relative_to(_MEMORY):
        raise ViewError(f"the working directory {workdir} is part of the system; name another with --workdir")
    _refuse_engines(workdir)


def checked(binds: Iterable[Bind], workdir: Path | None, keep: Iterable[Path] = ()) -> Iterator[Bind]:
    """Yield what else is to be shown, with what must not be changed in it. Raises ViewError for what cannot be."""
    writable = {workdir: workdir} if workdir is not None else {}  # by where it is seen, where it is
    for bind in binds:
        try:
            bind.source.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ViewError(f"{bind.source} cannot be shown inside: {reason}; check the path") from None
        _refuse_engines(bind.source)
        if not bind.target.is_absolute() or ".." in bind.target.parts or bind.target == Path("/"):
            raise ViewError(f"nothing can be shown at {bind.target}; name a place by its path from the root")
        for target, source in writable.items():
            if target in bind.target.parents:
                _check_mount_point(source / bind.target.relative_to(target))
        yield bind
        if bind.writable:
            writable[bind.target] = bind.source
            yield from _kept_in(bind, keep)


def _refuse_engines(source: Path) -> None:
    real = source.resolve()
    if sockets.is_of_engine(real) or sockets.holds_engines(real):
        raise ViewError(
            f"{source} is or holds {sockets.ENGINE};\n"
            "show the sandbox something else, and open a port with host_ports instead"
        )


def _kept_in(bind: Bind, keep: Iterable[Path]) -> Iterator[Bind]:
    kept = {place.resolve() for place in (*_own_places(bind.source), *keep) if place.exists()}
    kept = {place for place in kept if bind.source in place.parents}
    for writable, places in ((True, protected.pinned(bind.source, kept)), (False, sorted(kept))):
        for place in places:
            yield Bind(place, bind.target / place.relative_to(bind.source), writable=writable)


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


def _check_free(files: Iterable[Path], binds: Iterable[Bind]) -> None:
    """Have none of our files be made in what is shown: an agent can have made a link in its place."""
    for bind in binds:
        for path in (OURS, *files):
            if path.is_relative_to(bind.target):
                raise ViewError(
                    f"{bind.source} cannot be shown at {bind.target}, since Belljar itself puts {path} there;\n"
                    "name another place, with --bind SRC:DST or --ro-bind SRC:DST"
                )


def _tools(home: Path, search_path: str) -> Iterator[Bind]:
    on_path = [Path(entry) for entry in search_path.split(os.pathsep) if entry]
    around = {place for entry in on_path for place in (entry, *entry.parents)}
    for place, parts in _TOOLS.items():
        if home / place in around:
            for part in (home / part for part in parts):
                if os.access(part, os.R_OK | os.X_OK) and part.is_dir():
                    yield Bind(part.resolve(), part, writable=False)


def _replaced() -> Iterator[tuple[Path, str]]:
    """Yield files of the system that others take the place of, where they really are: links may lead into /run.

    One that is missing stays missing, as in many an image: nothing can be put into a read-only directory, and without
    the file programs do what ours tells them to.
    """
    for path, text in _FILES.items():
        real = Path(os.path.realpath(path))
        if real.exists() or not any(map(real.is_relative_to, SYSTEM)):
            yield real, text
