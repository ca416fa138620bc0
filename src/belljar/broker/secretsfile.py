"""The user's file of secrets: where each one comes from. And the file of prices, which is trusted in the same way.

Such a file names commands that are run on the host. So it is believed only where no sandbox can have written it: in
`~/.config/belljar`, or where a variable of ours names it outright, and nobody else may write to it there.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from belljar.errors import BelljarError
from belljar.linux.files.trusted import UntrustedError
from belljar.linux.files.usersfiles import home, trust_in
from belljar.policy.language.reading import EMPTY, UnreadableError
from belljar.policy.language.yamltext import read_yaml

SECRETS: Final = "BELLJAR_SECRETS"
PRICES: Final = "BELLJAR_PRICES"
_FILES: Final = {SECRETS: "secrets.yaml", PRICES: "prices.yaml"}
_MOST_BYTES: Final = 1 << 20


class UserFileError(BelljarError):
    """A file of the user's that is not trusted or cannot be read. The text names it, and quotes nothing of it."""


def place_of(variable: str, environ: Mapping[str, str]) -> Path:
    """Return where a file is, or would be."""
    if named := environ.get(variable):
        return Path(named).expanduser().absolute()
    configuration = environ.get("XDG_CONFIG_HOME")
    return (Path(configuration) if configuration else _usual()) / "belljar" / _FILES[variable]


def read_mapping(variable: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what a file says; nothing if there is none. Raises UserFileError."""
    path = place_of(variable, environ)
    trusted = path.parent if environ.get(variable) else _usual() / "belljar"
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        if environ.get(variable):
            raise UserFileError(f"{variable} names {path}, and there is no such file, or no way to it") from None
        return {}
    try:
        real = trust_in((trusted,)).check(path)
        reading = read_yaml(_text(real))
    except UntrustedError as error:
        raise UserFileError(f"{error}; keep it in {_usual() / 'belljar'}, or name it with {variable}") from None
    except OSError as error:
        raise UserFileError(f"{path} cannot be read: {error.strerror}") from None
    except (UnreadableError, UnicodeDecodeError) as error:
        if str(error) == EMPTY:  # or comments alone
            return {}
        why = error if isinstance(error, UnreadableError) else "is not UTF-8"
        raise UserFileError(f"{path} {why}") from None
    if not isinstance(reading.data, dict) or reading.twice:
        raise UserFileError(f"{path} is to be a mapping, with each name once")
    return reading.data


def _usual() -> Path:
    return (home() or Path("/nonexistent")) / ".config"


def _text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(0, os.strerror(27))
    return data.decode()
