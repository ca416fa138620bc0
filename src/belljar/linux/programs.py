"""The system's programs, run to their end.

They are looked for where the system keeps them and nowhere else: the caller's PATH may lead to a directory that an
agent can write to, and on Debian it does not lead to /usr/sbin. Nor are they run with the caller's environment.
"""

import os
import subprocess
from pathlib import Path
from typing import Final

from belljar.linux.files.trusted import Trust, UntrustedError

DIRECTORIES: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"

_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")

ENVIRONMENT: Final = {"PATH": DIRECTORIES, "LC_ALL": "C"}
"""All that they get to know of ours: variables name files, libraries to load first among them."""


class ProgramMissingError(Exception):
    """A program is not installed, out of reach, or not one that can be trusted; the text says which."""

    def __init__(self, program: str, problem: str = "is not installed", closed: Path | None = None) -> None:
        """`closed` is the directory on the way that this process must not pass, if that is the cause."""
        super().__init__(f"{program} {problem}")
        self.program, self.problem, self._closed = program, problem, closed

    def remedy(self, package: str) -> str:
        """Return the command that puts it right; the program is in a package of Debian's."""
        return f"sudo chmod o+x {self._closed}" if self._closed is not None else f"sudo apt-get install {package}"


class ProgramFailedError(Exception):
    """A program did not do what it was asked for. The text has its own words."""


def find(program: str) -> str:
    """Return where a program is that nobody but root can have put there. Raises ProgramMissingError."""
    for directory in DIRECTORIES.split(":"):
        path = f"{directory}/{program}"
        if os.access(path, os.X_OK):
            return _trusted(path, program)
    _check_passage(program)
    raise ProgramMissingError(program)


def run(program: str, *arguments: str, text: str = "") -> str:
    """Run a program with a text as its input, and return what it prints.

    Raises ProgramMissingError or ProgramFailedError.
    """
    path = find(program)
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the program is the system's own
            [path, *arguments],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env=ENVIRONMENT,
        )
    except PermissionError:
        _check_passage(program)  # to the loader, which a program is started by
        raise
    if done.returncode != 0:
        raise ProgramFailedError(f"{program}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def _check_passage(program: str) -> None:
    """Raise ProgramMissingError if a directory is closed that programs, or what they are loaded by, are in or below.

    To root's sandboxes a directory is closed that others than its owner must not pass: the file system's top, say.
    """
    for place in (*DIRECTORIES.split(":"), *_LIBRARIES):
        for directory in (*reversed(Path(place).parents), Path(place)):
            try:
                directory.stat()
            except OSError:
                break  # it is not there
            if not os.access(directory, os.X_OK):
                problem = f"cannot be reached: {directory} is closed to users other than its owner"
                raise ProgramMissingError(program, problem, directory)


def _trusted(path: str, program: str) -> str:
    try:
        Trust().check(Path(path))
    except UntrustedError as error:
        raise ProgramMissingError(program, f"is not run: {error}") from None
    return path  # as it is called: where it leads to may be many programs in one
