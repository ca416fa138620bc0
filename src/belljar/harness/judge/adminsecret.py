"""The secret of an installation that commands its judge: it allows to register runs and to read all of them."""

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError, reason
from belljar.harness.settings.variables import find_variable

_FILE: Final = "judge-admin-secret"
_MIN_LENGTH: Final = 16


class AdminSecretError(BelljarError):
    """The judge's secret cannot be read or made."""


class AdminSecret:
    """A secret that was read. Its text is never part of a representation."""

    def __init__(self, text: str) -> None:
        if len(text) < _MIN_LENGTH:
            raise AdminSecretError(
                f"the judge's admin secret is shorter than {_MIN_LENGTH} characters and can be guessed; choose a "
                f"longer one, or unset BELLJAR_ADMIN_SECRET to use the one that Belljar makes"
            )
        self.text: Final = text

    def matches(self, given: str | None) -> bool:
        """Return whether this is the secret, in the same time for whatever is given."""
        return given is not None and secrets.compare_digest(
            given.encode("utf-8", "surrogatepass"), self.text.encode("utf-8", "surrogatepass")
        )


def load_admin_secret(state: Path, environment: Mapping[str, str] = os.environ) -> AdminSecret:
    """Return the secret that the environment gives, or else that of the state directory, made if it is not there.

    Raises AdminSecretError.
    """
    if found := find_variable("ADMIN_SECRET", environment):
        return AdminSecret(found.value)
    path = state / _FILE
    try:
        if not path.exists():
            _make(path)
        status = path.stat()
        if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid != os.geteuid():
            raise AdminSecretError(
                f"{path} can be read by others, or belongs to another user; remove it to get another"
            )
        return AdminSecret(path.read_text("ascii").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise AdminSecretError(f"{path} cannot be read or made ({reason(error)}); check its directory") from None


def _make(path: Path) -> None:
    """Make the file whole or not at all. If another process is faster, its secret stays."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_hex(32)}\n")
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            return
    finally:
        draft.unlink(missing_ok=True)
