"""What of the host a sandbox sees: its system, read-only; the working directory; no home, no secrets, no sockets."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from belljar.sandbox.files.userfiles import user_files
from belljar.sandbox.files.workdirs import SYSTEM, ViewError, check_scratch
from belljar.sandbox.spec import Bind, SandboxSpec

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

    around: tuple[Bind, ...]
    """The rest of the working tree that the working directory is in, read-only."""

    binds: tuple[Bind, ...]
    """What was named. A socket that somebody listens at works in it, and in nothing else of the host's."""

    files: Mapping[Path, bytes]
    """Small read-only files that exist inside only."""

    scratch: Bind | None = None
    """A directory of our own to work in, writable; where it is on the host is nobody's business inside."""

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables of every command. What is around the working directory is a file system of its own to git."""
        return {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if self.around else {}


def view_of(spec: SandboxSpec, workdir: Path, home: Path, files: Mapping[Path, bytes]) -> View:
    """Return what a sandbox sees that works in a directory of the host. `files` are some of its own beside those that
    were asked for. Raises ViewError."""
    system = [Path(place) for place in SYSTEM]
    shown = user_files(spec, workdir)
    files = {path: text.encode() for path, text in _replaced()} | {**spec.files, **files}
    _check_free(files, (*shown.around, *shown.binds))
    return View(
        links={path: str(path.readlink()) for path in system if path.is_symlink()},
        system=tuple(Bind(path, path, writable=False) for path in system if path.is_dir() and not path.is_symlink()),
        home=home,
        tools=tuple(_tools(home, spec.environment.get("PATH", ""))),
        around=shown.around,
        binds=shown.binds,
        files=files,
    )


def with_scratch(view: View, source: Path, place: Path) -> View:
    """Show a directory of our own at another place than its own, which tells where it is. Raises ViewError."""
    binds = tuple(bind for bind in view.binds if bind.source != source)
    check_scratch(place, (*binds, *view.tools))
    for system in SYSTEM:
        if place.is_relative_to(system):
            raise ViewError(
                f"no working directory can be at {place}, since {system} is the host's own and read-only in a local "
                "sandbox;\nname another place, or use an image with --backend docker or podman"
            )
    if OURS.is_relative_to(place):
        raise ViewError(f"no working directory can be at {place}, since Belljar itself puts {OURS} there")
    return view._replace(binds=binds, scratch=Bind(source, place, writable=True))


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
