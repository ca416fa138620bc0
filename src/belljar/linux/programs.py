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

ENVIRONMENT: Final = {"PATH": DIRECTORIES, "LC_ALL": "C"}
"""All that they get to know of ours: variables name files, libraries to load first among them."""


class ProgramMissingError(Exception):
    """A program is not installed, or not as one that can be trusted; the text says which."""

    def __init__(self, program: str, problem: str = "is not installed") -> None:
        super().__init__(f"{program} {problem}")
        self.program, self.problem = program, problem


class ProgramFailedError(Exception):
    """A program did not do what it was asked for. The text has its own words."""


def find(program: str) -> str:
    """Return where a program is that nobody but root can have put there. Raises ProgramMissingError."""
    for directory in DIRECTORIES.split(":"):
        path = f"{directory}/{program}"
        if os.access(path, os.X_OK):
            return _trusted(path, program)
    raise ProgramMissingError(program)


def run(program: str, *arguments: str, text: str = "") -> str:
    """Run a program with a text as its input, and return what it prints.

    Raises ProgramMissingError or ProgramFailedError.
    """
    done = subprocess.run(  # noqa: S603 - no shell, and the program is the system's own
        [find(program), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )
    if done.returncode != 0:
        raise ProgramFailedError(f"{program}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def _trusted(path: str, program: str) -> str:
    try:
        Trust().check(Path(path))
    except UntrustedError as error:
        raise ProgramMissingError(program, f"is not run: {error}") from None
    return path  # as it is called: where it leads to may be many programs in one
