"""References such as ``${ANTHROPIC_API_KEY}``, and what they stand for where the broker runs.

Theory of operation
-------------------
A policy names secrets and never has one, so who reads a policy has no key. Who writes one says where a key is sent, and
is trusted with that. What a name stands for is looked up in the user's secrets file first, and then in the environment,
whose variables of Belljar's own stand for nothing: they open servers, and are nobody's API key. The file alone says
which command is run or which file is read: a policy cannot.

A value is looked up when it is first used, and again after five minutes, or when the provider did not accept it: keys
are exchanged while sandboxes run. It is wrapped from the moment it is read until it is put into a request, and the
wrapper shows itself as stars: no error, log or traceback has a value to show.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from belljar.broker.secretsfile import SECRETS, UserFileError, place_of, read_mapping
from belljar.errors import BelljarError
from belljar.linux.files.trusted import UntrustedError
from belljar.linux.files.usersfiles import home, trust_in
from belljar.linux.programs import DIRECTORIES, ProgramMissingError, find
from belljar.policy.services import Service

_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
_VALUE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?", re.ASCII)
_FORMS: Final = "{env: VARIABLE}, {file: PATH} or {command: [PROGRAM, ...]}"
_OUR_OWN: Final = "BELLJAR_"
_GOOD_FOR_SECONDS: Final = 300
_COMMAND_SECONDS: Final = 30
_MOST_BYTES: Final = 16 << 10
_HANDED_ON: Final = ("DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "GPG_TTY", "USER", "LOGNAME", "XDG_RUNTIME_DIR")


class SecretError(BelljarError):
    """A reference that stands for nothing. The text names the reference, and never a value."""


class Secret:
    """A value that shows itself to nobody who does not ask for it by name."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value, for the one place where it is needed."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __reduce__(self) -> Any:
        raise TypeError("a secret is not copied anywhere")


def references(service: Service) -> tuple[str, ...]:
    """Return the names that a service's headers refer to."""
    return tuple(name for _, value in service.header for name in _REFERENCE.findall(value))


def resolve_all(service: Service, environ: Mapping[str, str]) -> None:
    """Make sure that every reference of a service stands for something. Raises SecretError with the remedy."""
    Secrets(environ).headers_of(service)


class Secrets:
    """What references stand for, looked up when it is needed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._known = dict[str, tuple[float, Secret]]()

    def headers_of(self, service: Service) -> list[tuple[str, Secret]]:
        """Return the headers that a service sets. Raises SecretError. It may take long: commands are run."""
        return [(name, Secret("".join(self._parts(value)))) for name, value in service.header]

    def is_at_hand(self, service: Service) -> bool:
        """Tell whether nothing would have to be read or run for a service's headers."""
        return all(name in self._known and time.monotonic() < self._known[name][0] for name in references(service))

    def forget(self, service: Service) -> None:
        """Look up again what a service refers to, when it is used next."""
        for name in references(service):
            self._known.pop(name, None)

    def _parts(self, value: str) -> Iterator[str]:
        end = 0
        for match in _REFERENCE.finditer(value):
            yield value[end : match.start()]
            yield self._resolve(match[1]).reveal()
            end = match.end()
        yield value[end:]

    def _resolve(self, name: str) -> Secret:
        until, known = self._known.get(name, (0.0, None))
        if known is not None and time.monotonic() < until:
            return known
        found = self._look_up(name)
        self._known[name] = time.monotonic() + _GOOD_FOR_SECONDS, found
        return found

    def _look_up(self, name: str) -> Secret:
        try:
            entries = read_mapping(SECRETS, self._environ)
        except UserFileError as error:
            raise SecretError(f"${{{name}}} cannot be looked up: {error}") from None
        if name in entries:
            return _checked(name, _from_entry(name, entries[name], self._environ))
        if not name.startswith(_OUR_OWN) and (value := self._environ.get(name)):
            return _checked(name, value)
        raise SecretError(
            f"${{{name}}} stands for nothing: set the variable {name} where Belljar runs, or say where it comes from "
            f"in {place_of(SECRETS, self._environ)}, as {_FORMS}"
        )


def _checked(name: str, value: str) -> Secret:
    if not _VALUE.fullmatch(value):
        raise SecretError(f"${{{name}}} stands for something that cannot be a header: it is empty or not plain ASCII")
    return Secret(value)


def _from_entry(name: str, entry: Any, environ: Mapping[str, str]) -> str:
    match entry:
        case {"env": str(variable), **rest} if not rest:
            if value := environ.get(variable):
                return value
            raise SecretError(f"${{{name}}} comes from the variable {variable}, which is not set where Belljar runs")
        case {"file": str(path), **rest} if not rest:
            return _from_file(name, Path(path).expanduser())
        case {"command": [str(program), *arguments], **rest} if not rest and all(isinstance(a, str) for a in arguments):
            return _from_command(name, [program, *arguments], environ)
    raise SecretError(f"${{{name}}} has an entry in the secrets file that is none of {_FORMS}")


def _from_file(name: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not ASCII"
        raise SecretError(f"${{{name}}} comes from {path}, which cannot be read: {why}") from None


def _from_command(name: str, command: list[str], environ: Mapping[str, str]) -> str:
    failed = f"${{{name}}} comes from the command {command[0]}, which"
    try:
        program = _trusted_program(command[0])
        done = subprocess.run(  # noqa: S603 - no shell, and the user's own file names it
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it may have the secret in it
            check=False,
            timeout=_COMMAND_SECONDS,
            cwd="/",
            env=_environment(environ),
        )
    except subprocess.TimeoutExpired:
        raise SecretError(f"{failed} did not end within {_COMMAND_SECONDS} seconds") from None
    except (OSError, ProgramMissingError, UntrustedError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SecretError(f"{failed} cannot be run: {why}") from None
    if done.returncode != 0:
        raise SecretError(f"{failed} failed with exit status {done.returncode}; run it to see why")
    return done.stdout[:_MOST_BYTES].decode("ascii", "replace").strip()


def _trusted_program(program: str) -> str:
    if "/" not in program:
        return find(program)
    path = Path(program).expanduser().absolute()
    trust_in((path.parent,)).check(path)
    return str(path)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a keeper of secrets needs to find its store and its agent, and nothing that a project could set."""
    found = {name: environ[name] for name in _HANDED_ON if name in environ}
    return {**found, "PATH": DIRECTORIES, "LC_ALL": "C", "HOME": str(home() or os.sep)}
