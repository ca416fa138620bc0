"""Home directories: where a sandbox has its own, and which of the host's it must not be shown."""

import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

_FALLBACK: Final = Path("/home/agent")
_OCCUPIED: Final = ("/usr", "/bin", "/sbin", "/lib", "/etc", "/proc", "/dev", "/sys")


def home_inside(environment: Mapping[str, str]) -> Path:
    """Return where the sandbox's empty home directory is: where the user's is, if it can be there."""
    named = Path(os.path.normpath(environment.get("HOME") or _FALLBACK))
    usable = named.is_absolute() and named != Path("/") and not any(map(named.is_relative_to, _OCCUPIED))
    return named if usable else _FALLBACK


def homes_of_user(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the home directories of whoever runs us, as a variable, the system, and sudo say."""
    if named := environment.get("HOME"):
        yield Path(named).resolve()
    for user in (str(os.getuid()), environment.get("SUDO_UID", "")):
        with suppress(KeyError, ValueError):
            yield Path(pwd.getpwuid(int(user)).pw_dir).resolve()
