"""Where servers keep their state on this machine: who can write there, or use the socket there, commands the server."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SERVER: Final = "BELLJAR_SERVER"
"""A variable that names a server: by a URL, or by its state directory."""


def default_state(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the state directory of this user's server."""
    if os.geteuid() == 0:
        return Path("/var/lib/belljar")
    return Path(environment.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "belljar"


def known_states(environment: Mapping[str, str]) -> list[Path]:
    """Return the state directories of the servers that this user's commands turn to."""
    named = environment.get(SERVER, "")
    return [default_state(environment), *([Path(named).expanduser()] if named and "://" not in named else [])]
