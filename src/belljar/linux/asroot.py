"""Programs that only root may run, for those who are root and for those who may become it without a password."""

import os
from typing import Final

from belljar.linux import programs

_ITS_OWN_WORDS: Final = "sudo: sudo:"
"""How an error begins that is sudo's, and not that of the program it was to run."""


class NotRootError(Exception):
    """We are not root, and may not run this program as root."""

    def __init__(self, program: str) -> None:
        super().__init__(f"{program} takes root, and `sudo -n {program}` is not allowed")


def run(program: str, *arguments: str, text: str = "") -> str:
    """Run a program as root, with a text as its input, and return what it prints.

    Raises NotRootError, ProgramMissingError or ProgramFailedError.
    """
    if os.geteuid() == 0:
        return programs.run(program, *arguments, text=text)
    path = programs.find(program)
    try:
        return programs.run("sudo", "-n", path, *arguments, text=text)
    except programs.ProgramMissingError:
        raise NotRootError(path) from None
    except programs.ProgramFailedError as error:
        if str(error).startswith(_ITS_OWN_WORDS):
            raise NotRootError(path) from error
        raise
