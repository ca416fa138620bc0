"""What is known of a sandbox by whoever comes later: one directory each, open to nobody else.

A sandbox has a record as soon as it can live by itself, and not before. So a directory without one is left over from a
sandbox that was never finished, and has ended.
"""

import json
import os
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Self

from belljar.backends.interface import GoneError, LostError, MachineError, SpecError, is_name
from belljar.linux import programs
from belljar.linux.lives import Life

_RECORD: Final = "record.json"


@dataclass(frozen=True, slots=True)
class Record:
    """What it takes to enter a sandbox as one of its own processes."""

    around: Life
    """Bubblewrap's own process, the first of a PID namespace around the sandbox's: its end is the end of all."""

    init: Life
    """The sandbox's first process."""

    network: int
    """The inode of its network namespace."""

    is_stand_in: bool
    workdir: str
    environment: dict[str, str]
    debugger: bool
    address_space: int | None
    groups: list[str]
    """Directories of the control groups that its processes are in."""

    freezer: str | None = None
    """That of them which can be frozen."""

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Return a record from what `asdict` made of it, here or in a later version. Raises TypeError, KeyError."""
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        return cls(**{**known, "around": Life(*data["around"]), "init": Life(*data["init"])})


class Records:
    """The sandboxes of one state directory."""

    def __init__(self, state: Path) -> None:
        """Make the directory if it is not there. Raises MachineError."""
        self._state = state
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = state.stat()
        except OSError as error:
            raise MachineError(f"the state directory {state} cannot be made: {error}; name another") from error
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise MachineError(
                f"the state directory {state} is open to others, or another's; chmod 700 it, or name another"
            )

    @property
    def label(self) -> str:
        """What tells this directory's sandboxes from those of others, where the kernel shows them side by side."""
        return f"{zlib.crc32(os.fsencode(self._state.resolve())):08x}"

    def overlaps(self, path: Path) -> bool:
        """Tell whether a path leads to the state, or has it somewhere below."""
        state, shown = self._state.resolve(), path.resolve()
        return state.is_relative_to(shown) or shown.is_relative_to(state)

    def directory(self, sandbox: str) -> Path:
        """Return where things of a sandbox are kept. Raises GoneError for what is no name."""
        if not is_name(sandbox):
            raise GoneError(f'"{sandbox}" is no name of a sandbox')
        return self._state / sandbox

    def begin(self, sandbox: str) -> Path:
        """Take a name, and return the directory for it. Raises SpecError."""
        if not is_name(sandbox):
            raise SpecError(f'"{sandbox}" cannot be a name; use up to 64 letters, digits, hyphens and underscores')
        try:
            self.directory(sandbox).mkdir(mode=0o700)
        except FileExistsError:
            raise SpecError(f"there is a sandbox {sandbox} already; choose another name") from None
        return self.directory(sandbox)

    def write(self, sandbox: str, record: Record) -> None:
        """Keep a record: all of it, or nothing."""
        draft = self.directory(sandbox) / "draft"
        with open(draft, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            json.dump(asdict(record), file)
        draft.rename(self.directory(sandbox) / _RECORD)

    def read(self, sandbox: str) -> Record:
        """Return the record of a sandbox. Raises GoneError, and LostError if it cannot be read."""
        path = self.directory(sandbox) / _RECORD
        try:
            return Record.from_data(json.loads(path.read_bytes()))
        except FileNotFoundError:
            raise GoneError(f"there is no sandbox {sandbox}") from None
        except (OSError, ValueError, TypeError, KeyError) as error:
            # Not to be taken for a sandbox that has ended: its processes may be running.
            raise LostError(f"{path} is damaged, or another version's, and cannot be read: {error}") from error

    def has(self, sandbox: str) -> bool:
        """Tell whether there is anything of a sandbox."""
        return self.directory(sandbox).exists()

    def names(self) -> list[str]:
        """Return the names of all sandboxes, unfinished ones included."""
        return sorted(entry.name for entry in self._state.iterdir() if entry.is_dir() and is_name(entry.name))

    def remove(self, sandbox: str) -> None:
        """Forget a sandbox, and delete what it has written to a directory of its own. Raises LostError."""
        with suppress(FileNotFoundError):
            (self.directory(sandbox) / _RECORD).unlink()  # first: it must not be found half deleted
        directory = str(self.directory(sandbox))
        # Programs that no depth defeats: an agent could nest directories deeper than Python can follow.
        try:
            try:
                programs.run("rm", "-rf", "--", directory)
            except programs.ProgramFailedError:  # the agent has closed directories to their owner, who is us
                programs.run("chmod", "-R", "u+rwx", "--", directory)
                programs.run("rm", "-rf", "--", directory)
        except (programs.ProgramFailedError, programs.ProgramMissingError) as error:
            raise LostError(f"what the sandbox {sandbox} has written cannot be deleted: {error}") from error
