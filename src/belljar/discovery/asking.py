"""Ask programs and files of this machine, but none that an agent may have left in the working directory.

A project that was open in a sandbox can hold a ``pip.py``, an ``.npmrc`` or a whole ``bin`` directory of the
agent's making. Asking must neither run these (that would be a way out of the sandbox) nor believe them (an
agent could name its own hosts). So children start in the root directory, where tools find the user's
configuration and no project's, and programs inside the working directory are passed over.
"""

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MAX_BYTES = 4 << 20
"""More than any tool says or any configuration file holds."""


class NoAnswerError(Exception):
    """Nothing usable is to be had. The text is a clause for a person; it never repeats what was read."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that is asked: this one, unless a test plays another."""

    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    timeout: float = 10.0

    @property
    def home(self) -> Path:
        """The user's home directory."""
        return self.root / self.env.get("HOME", "")

    def directory(self, variable: str, default: str) -> Path:
        """Return the directory that a variable names, or the default below the user's home."""
        return self.root / (self.env.get(variable) or self.home / default)

    def read(self, path: Path) -> bytes | None:
        """Return the content of a file, or None if there is none to be had."""
        try:
            with path.open("rb") as file:
                return file.read(MAX_BYTES)
        except OSError:
            return None

    def find(self, program: str) -> Path | None:
        """Return where a program is installed, or None. One in the working directory does not count."""
        directories = self.env.get("PATH", os.defpath).split(":")
        found = shutil.which(program, path=":".join(filter(_is_outside_the_working_directory, directories)))
        return Path(found) if found else None

    def require(self, program: str) -> Path:
        """Return where a program is installed, or raise NoAnswerError."""
        if found := self.find(program):
            return found
        if shutil.which(program, path=self.env.get("PATH", os.defpath)):
            raise NoAnswerError(f"{program} is only in the working directory, where a sandbox may have put it")
        raise NoAnswerError(f"{Path(program).name} is not installed here")

    def run(self, *argv: str) -> str:
        """Return what a program prints, or raise NoAnswerError."""
        program = self.require(argv[0])
        try:
            child = subprocess.Popen(  # noqa: S603 - no shell; the program is one of ours to choose
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # may repeat credentials
                cwd=self.root,
                env={**self.env, "PWD": str(self.root)},
                start_new_session=True,
            )
        except OSError:
            raise NoAnswerError(f"{program.name} cannot be started") from None
        with child:
            return self._answer_of(child, program.name)

    def run_together(self, *commands: tuple[str, ...]) -> list[str | None]:
        """Run programs side by side; None stands for one that did not answer."""
        with ThreadPoolExecutor(len(commands)) as pool:
            return list(pool.map(self._run_or_none, commands))

    def _run_or_none(self, command: tuple[str, ...]) -> str | None:
        try:
            return self.run(*command)
        except NoAnswerError:
            return None

    def _answer_of(self, child: subprocess.Popen[bytes], name: str) -> str:
        deadline = time.monotonic() + self.timeout
        try:
            output = _read_all(child, deadline)
            status = child.wait(max(0.0, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise NoAnswerError(f"{name} did not answer within {self.timeout:g} seconds") from None
        except OverflowError:
            raise NoAnswerError(f"{name} answered more than can be read") from None
        finally:
            # Not yet reaped, so its number, which is its group's too, is still its own.
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        if status != 0:
            raise NoAnswerError(f"{name} failed (exit status {status})")
        return output.decode(errors="replace")


def _read_all(child: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Read up to the end of the output. A pipe that a grandchild holds open must not outlast the deadline."""
    assert child.stdout is not None  # noqa: S101 - it is a pipe
    output = bytearray()
    poller = select.poll()
    poller.register(child.stdout, select.POLLIN)
    while poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
        chunk = os.read(child.stdout.fileno(), 65536)
        if not chunk:
            return bytes(output)
        output += chunk
        if len(output) > MAX_BYTES:
            raise OverflowError
    raise TimeoutError


def _is_outside_the_working_directory(directory: str) -> bool:
    here = Path.cwd()
    if not Path(directory).is_absolute():
        return False
    return here == Path("/") or not Path(directory).resolve().is_relative_to(here)
