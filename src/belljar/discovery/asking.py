"""Ask this machine, but nothing that a sandbox of this user may have written.

A project that was open in a sandbox can hold an `.npmrc`, a whole virtual environment or a `bin` directory of the
agent's making, and the caller's PATH or PIP_CONFIG_FILE may lead there. Asking must neither run these (that would be a
way out of the sandbox) nor believe them (an agent could name its own hosts). So tools are read rather than run: their
settings and, where nothing is set, their own files, in which the default is. All of these have to be at trusted places
(`belljar.linux.files.trusted`): the system's, and a few in the user's home directory where tools and their settings are
by custom. Programs that are elsewhere are passed over; settings that are elsewhere are refused, never ignored.

A variable of the caller's is the caller's word. If it names a file, that file is held to the same.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from belljar.discovery.running import MAX_BYTES, NoAnswerError, answer_of
from belljar.linux.files import usersfiles
from belljar.linux.files.trusted import Trust, UntrustedError
from belljar.linux.programs import DIRECTORIES

AT_HOME: Final = (
    # Settings.
    ".config", ".pip", ".npmrc", ".m2",
    # Tools, with their settings.
    ".cargo", ".local", ".npm-global", ".nvm", ".sdkman",
)  # fmt: skip
"""Where in the user's home directory files are believed. Projects, and links to what is in them, are elsewhere."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that is asked: this one, unless a test plays another."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    users_home: Path | None = field(default_factory=usersfiles.home)
    exposed: tuple[Path, ...] = ()
    """Directories that sandboxes can write to."""

    timeout: float = 10.0

    @property
    def home(self) -> Path:
        """The home directory that tools use."""
        named = self.root / self.env.get("HOME", "")
        known = self.users_home
        return known if known and (not self.env.get("HOME") or named.resolve() == known) else named

    def directory(self, variable: str, default: str) -> Path:
        """Return the directory that a variable names, or the default below the user's home."""
        return self.named(variable) or self.home / default

    def named(self, variable: str) -> Path | None:
        """Return the file or directory that a variable names. It is not yet trusted."""
        value = self.env.get(variable)
        return _absolute(value, variable) if value else None

    def system_settings(self) -> list[Path]:
        """Return the directories of the machine's settings, those that count more first."""
        named = filter(None, self.env.get("XDG_CONFIG_DIRS", "").split(":"))
        return [_absolute(entry, "XDG_CONFIG_DIRS") for entry in named] or [self.root / "etc/xdg"]

    def read(self, path: Path) -> bytes | None:
        """Return the content of a trusted file, or None if there is no such file. Raises NoAnswerError."""
        if not os.path.lexists(path):
            return None
        try:
            descriptor = os.open(self._trust().check(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
                return file.read(MAX_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        except UntrustedError as error:
            raise NoAnswerError(str(error)) from None
        except OSError:
            return None

    def read_text(self, path: Path) -> str:
        """Return the content of a trusted file as text; none, if there is no such file. Raises NoAnswerError."""
        return (self.read(path) or b"").decode(errors="replace")

    def find(self, program: str) -> Path | None:
        """Return which file a program is, by the caller's PATH, among those that can be trusted."""
        return next((found for found in self._found(program) if isinstance(found, Path)), None)

    def require(self, program: str) -> Path:
        """Return which file a program is, or raise NoAnswerError."""
        if found := self.find(program):
            return found
        for untrusted in self._found(program):
            raise NoAnswerError(str(untrusted))
        raise NoAnswerError(f"{program} is not installed here")

    def run(self, program: str, *arguments: str) -> str:
        """Return what a program of the system's prints, or raise NoAnswerError."""
        return answer_of(self._required_of_system(program), arguments, self.root, self.timeout)

    def check_system(self, path: Path) -> None:
        """Make sure that nobody but root can have written what a program of the system's will read."""
        try:
            self._trust_in_system().check(path)
        except UntrustedError as error:
            raise NoAnswerError(str(error)) from None
        except OSError:
            pass  # it is not there

    def _found(self, program: str) -> Iterator[Path | UntrustedError]:
        """Return what the caller's PATH has under a name, and then the system's directories."""
        named = [Path(entry) for entry in self.env.get("PATH", "").split(":") if entry.startswith("/")]
        for directory in (*named, *self._directories_of_system()):
            if os.access(directory / program, os.X_OK) and (directory / program).is_file():
                try:
                    yield self._trust().check(directory / program)
                except UntrustedError as error:
                    yield error
                except OSError:
                    continue  # gone in the meantime

    def _required_of_system(self, program: str) -> Path:
        for path in (directory / program for directory in self._directories_of_system()):
            if os.access(path, os.X_OK):
                self.check_system(path)
                return path
        raise NoAnswerError(f"{program} is not installed here")

    def _directories_of_system(self) -> list[Path]:
        return [self.root / directory.lstrip("/") for directory in DIRECTORIES.split(":")]

    def _trust_in_system(self) -> Trust:
        return Trust(tuple(self.root / directory.relative_to("/") for directory in Trust().system))

    def _trust(self) -> Trust:
        home = self.users_home
        places = [home / place for place in AT_HOME] if home else []
        return usersfiles.trust_in(places, self._trust_in_system().system, self.exposed)


def _absolute(path: str, variable: str) -> Path:
    if not path.startswith("/"):
        raise NoAnswerError(f"{variable} names {path}, which is another file in each directory")
    return Path(path)
