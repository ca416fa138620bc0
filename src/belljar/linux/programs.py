"""The system's programs, run to their end.

They are looked for where the system keeps them and nowhere else: the caller's PATH may lead to a directory that an
agent can write to, and on Debian it does not lead to /usr/sbin.
"""

import os
import subprocess
from typing import Final

DIRECTORIES: Final = "/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"


class ProgramMissingError(Exception):
    """A program is not installed."""

    def __init__(self, program: str) -> None:
        super().__init__(f"{program} is not installed")
        self.program = program


class ProgramFailedError(Exception):
    """A program did not do what it was asked for. The text has its own words."""


def find(program: str) -> str:
    """Return where a program is. Raises ProgramMissingError."""
    for directory in DIRECTORIES.split(":"):
        path = f"{directory}/{program}"
        if os.access(path, os.X_OK):
            return path
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
        env={"PATH": DIRECTORIES, "LC_ALL": "C"},
    )
    if done.returncode != 0:
        raise ProgramFailedError(f"{program}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout
