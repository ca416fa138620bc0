"""The token of an installation: made by chance, kept in a file that nobody else can read."""

import os
import secrets
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError, reason

_FILE: Final = "token"


class TokenError(BelljarError):
    """The token cannot be read or written."""


class TokenFile:
    """Where the token is. It is read whenever it is needed, so that a new one counts at once."""

    def __init__(self, state: Path) -> None:
        self.path = state / _FILE

    def read(self) -> str:
        """Return the token. Raises TokenError."""
        try:
            token = self.path.read_text("ascii").strip()
        except FileNotFoundError:
            raise TokenError(
                f"{self.path} does not exist; `belljar serve` makes it, or name another server's directory with --state"
            ) from None
        except (OSError, ValueError) as error:
            raise TokenError(
                f"{self.path} cannot be read ({reason(error)}); `belljar token rotate` makes a new one"
            ) from None
        if not token:
            raise TokenError(f"{self.path} is empty; `belljar token rotate` makes a new one")
        return token

    def ensure(self) -> None:
        """Make a token if there is none. Raises TokenError."""
        if not self.path.exists():
            self.rotate()

    def rotate(self) -> str:
        """Make a new token, and return it: from now on it counts, and the old one does not. Raises TokenError."""
        token = secrets.token_urlsafe(32)
        draft = self.path.with_name(f"{_FILE}.{secrets.token_hex(4)}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{token}\n")
            draft.replace(self.path)
        except OSError as error:
            raise TokenError(f"{self.path} cannot be written ({reason(error)}); check its directory") from None
        return token

    def matches(self, given: str) -> bool:
        """Tell whether this is the token; nothing is if it cannot be read."""
        try:
            return secrets.compare_digest(given.encode(), self.read().encode())
        except TokenError:
            return False
