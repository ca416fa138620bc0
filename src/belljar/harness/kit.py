"""What every work sandbox is shown of ours: the commands that agents submit with, and a Python of their own.

An image may have neither Python nor curl nor jq, or another C library. So the commands are shell scripts that run the
host's Python with its own loader and libraries, from a directory that is shown read-only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from belljar.backends.interface import MachineError
from belljar.sandbox.files.ownplaces import caches
from belljar.sandbox.toolbox.making import ToolboxError, open_toolbox
from belljar.sandbox.toolbox.model import ToolboxContents

KIT_PLACE: Final = "/belljar/kit"
"""Where it is seen, in every sandbox."""

PROGRAMS: Final = ("belljar-submit", "sforge-submit")
"""The commands in its directory `bin`. SForge calls it by the second name."""

_CLIENT: Final = "belljar.harness.submit.client"
_IMPORTED_LATE: Final = ("encodings.idna", "gzip", "zlib")
"""What the standard library imports once it resolves a name, or compresses an archive."""


class Kit(NamedTuple):
    """A kit that was made. Whoever runs a sandbox can read it."""

    directory: Path


def default_cache(environment: Mapping[str, str]) -> Path:
    """Return where this user's kit is kept."""
    return caches(environment) / "kit"


def open_kit(cache: Path) -> Kit:
    """Return the kit that is kept in a directory; make it if there is none, or an old one. Raises MachineError."""
    commands = dict.fromkeys(PROGRAMS, _CLIENT)
    contents = ToolboxContents({}, (_CLIENT, *_IMPORTED_LATE), commands, KIT_PLACE)
    try:
        return Kit(open_toolbox(cache, contents).directory)
    except ToolboxError as error:
        raise MachineError(f"agents would have no command to submit with: {error}") from error
