"""The program that packs or unpacks a tree inside a container, with the agent's rights and seen as it sees it.

Whoever starts it speaks to it by its standard streams: the archive is its input or its output. It imports nothing that
a toolbox does not have.
"""

import os
import sys
from typing import Final

from belljar.sandbox.trees.archive import TreeError
from belljar.sandbox.trees.packing import pack
from belljar.sandbox.trees.unpacking import unpack

FAILED: Final = 3
"""The exit code if the tree or the archive is not as it should be; the standard error says why."""

_BUFFER: Final = 1 << 18


def main() -> None:
    """Do what the arguments say: put PATH, or get PATH LIMIT NAME…. Paths are from our working directory."""
    task, path, *rest = sys.argv[1:]
    try:
        if task == "put":
            with open(0, "rb", buffering=_BUFFER, closefd=False) as archive:
                unpack(path, archive)
        else:
            with open(1, "wb", buffering=_BUFFER, closefd=False) as archive:
                pack(path, rest[1:], int(rest[0]), archive)
    except (TreeError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        os.write(2, (reason or str(error)).encode(errors="replace"))
        # The caller stops sending once it reads why. Of a command that leaves input unread, Podman loses output.
        while task == "put" and os.read(0, _BUFFER):
            pass
        sys.exit(FAILED)
