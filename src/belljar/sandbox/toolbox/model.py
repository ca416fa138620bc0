"""What a toolbox has in it, and the words that run it."""

import fcntl
import io
import os
import secrets
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

MODULES: Final = Path("/opt/belljar")
"""Where our own modules are in it."""


class ToolboxContents(NamedTuple):
    """What is put into a toolbox."""

    programs: Mapping[str, str]
    """Their names, and the packages that they are in."""

    modules: Sequence[str]
    """Modules that our programs import. What these import when they are imported is put in as well."""

    commands: Mapping[str, str] = {}
    """Scripts in `bin`, for any shell, and the module whose `main` each of them runs with its words."""

    place: str = ""
    """Where it is seen, if that is known: only then can it have commands."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A toolbox that was made."""

    directory: Path
    digest: str
    loader: str
    libraries: list[str]
    """The directories that libraries are in."""

    python: str
    programs: Mapping[str, str]
    """Where each of its programs is."""

    place: str = ""
    """Where it is seen: at the root, as helpers do, or in a directory."""

    def hidden(self) -> "Toolbox":
        """Return it as a new sandbox sees it, at a place that nobody has known before."""
        return self.seen_at(f"/.belljar-{secrets.token_hex(8)}")

    def seen_at(self, place: str) -> "Toolbox":
        """Return it as a sandbox sees it."""
        return replace(self, place=place)

    def image(self) -> bytes:
        """Return it as the archive of an image."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.add(self.directory, ".", filter=_anonymous)
        return content.getvalue()

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Have all others wait, in this process and in others."""
        directory = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def inside(self, program: str, *arguments: str) -> list[str]:
        """Return the words that run one of its programs in a sandbox."""
        libraries = ":".join(f"{self.place}{directory}" for directory in self.libraries)
        return [f"{self.place}{self.loader}", "--library-path", libraries, f"{self.place}{program}", *arguments]

    def running(self, program: str, *arguments: str) -> list[str]:
        """Return the words that run one of its programs, by its name, in a sandbox."""
        return self.inside(self.programs[program], *arguments)

    def calling(self, module: str, call: str, *arguments: str) -> list[str]:
        """Return the words for a call of a function of a module of ours, in a process of its own."""
        path = f"{self.place}{MODULES}"
        function = call.partition("(")[0]
        program = f"import sys; sys.path.insert(0, {path!r}); from {module} import {function}; sys.exit({call})"
        return self.inside(self.python, "-I", "-S", "-B", "-X", "utf8", "-c", program, *arguments)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = member.mode | 0o555
    return member
