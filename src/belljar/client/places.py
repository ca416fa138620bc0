"""Where a server is: a URL, or its state directory on this machine, in which there is a socket."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from belljar.client.errors import NoServerError
from belljar.statedir import SERVER, default_state

TOKEN: Final = "BELLJAR_TOKEN"  # noqa: S105 - the name of a variable
SOCKET: Final = "belljar.sock"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to connect to, and with which token."""

    url: str
    socket: Path | None = None
    token: str | None = None

    def __str__(self) -> str:
        return self.url if self.socket is None else str(self.socket)


def find_server(server: str | os.PathLike[str] | None, token: str | None) -> Place:
    """Return where a server is that was named, or that the environment names, or this user's. Raises NoServerError."""
    named = server or os.environ.get(SERVER) or default_state()
    text = os.fspath(named)
    if "://" not in text:
        return Place("http://localhost", Path(text).expanduser() / SOCKET)
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.path.strip("/") or url.query:
        raise NoServerError(
            f'"{text}" is no server; write http://HOST:PORT, or the directory of one that runs on this machine'
        )
    return Place(text.rstrip("/"), token=token or os.environ.get(TOKEN))
