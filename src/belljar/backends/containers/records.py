"""What is known of a sandbox beside what its engine knows: one directory each, open to nobody else.

The engine has the container, with labels that say whose it is. Variables are kept here, since they may be secrets and
everybody who uses the engine can read what it knows; and so are the files that are shown inside.
"""

import json
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from belljar.backends.containers.mountcheck import ExpectedMount
from belljar.backends.interface import LostError, MachineError

_RECORD: Final = "record.json"
_SANDBOXES: Final = "sandboxes"
_FILES: Final = "files"
_FILTER: Final = "seccomp.json"


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """What it takes to run a command in a sandbox."""

    workdir: str
    user: str
    environment: dict[str, str]
    toolbox: str
    """Where it sees our programs."""

    mounts: list[ExpectedMount]
    """What of the host it is to see."""

    began: str = ""
    """When it started, as the engine writes it, the last time that its mounts were looked at."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return a record from what `asdict` made of it."""
        data = json.loads(text)
        mounts = [ExpectedMount(*mount) for mount in data["mounts"]]
        return cls(data["workdir"], data["user"], data["environment"], data["toolbox"], mounts, data["began"])


def recorded(state: Path) -> list[str]:
    """Return the names of the sandboxes of which there is something in a state directory, if that is there."""
    try:
        return sorted(path.name for path in (state / _SANDBOXES).iterdir())
    except FileNotFoundError:
        return []


class ContainerRecords:
    """The sandboxes of one state directory."""

    def __init__(self, state: Path) -> None:
        """Make the directory if it is not there. Raises MachineError."""
        self.state, self._sandboxes = state, state / _SANDBOXES
        try:
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            for directory in (self.meeting, self._sandboxes):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise MachineError(f"the state directory {state} cannot be used: {error.strerror}") from error

    @property
    def meeting(self) -> Path:
        """Where helpers are met."""
        return self.state / "doors"

    def owner(self) -> str:
        """Return what tells this state directory from all others."""
        path = self.state / "owner"
        with suppress(FileExistsError), path.open("x") as file:
            file.write(secrets.token_hex(6))
        return path.read_text()

    def has(self, sandbox: str) -> bool:
        """Tell whether there is something of a sandbox."""
        return self.place(sandbox).exists()

    def names(self) -> list[str]:
        """Return the names of the sandboxes of which there is something."""
        return recorded(self.state)

    def place(self, sandbox: str) -> Path:
        """Return the directory of a sandbox."""
        return self._sandboxes / sandbox

    def put_files(self, sandbox: str, files: Mapping[Path, bytes]) -> dict[Path, Path]:
        """Keep files to be shown inside; return where each is, by where it is to be seen."""
        directory = self.place(sandbox) / _FILES
        directory.mkdir(parents=True, mode=0o755)
        kept = {target: directory / str(number) for number, target in enumerate(files)}
        for target, path in kept.items():
            path.write_bytes(files[target])
            path.chmod(0o644)
        return kept

    def put_filter(self, sandbox: str, text: str) -> Path:
        """Keep a system call filter; return where it is."""
        path = self.place(sandbox) / _FILTER
        path.write_text(text)
        return path

    def write(self, sandbox: str, record: ContainerRecord) -> None:
        """Keep what is known of a sandbox."""
        path = self.place(sandbox) / _RECORD
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(record)))

    def read(self, sandbox: str) -> ContainerRecord:
        """Return what is known of a sandbox. Raises LostError."""
        path = self.place(sandbox) / _RECORD
        try:
            return ContainerRecord.read(path.read_text())
        except (OSError, ValueError, KeyError) as error:
            raise LostError(f"what was known of the sandbox {sandbox} cannot be read from {path}: {error}") from error

    def remove(self, sandbox: str) -> None:
        """Forget a sandbox."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.place(sandbox))
