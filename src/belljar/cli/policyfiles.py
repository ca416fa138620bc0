"""Policy files: reading them, and saying what is wrong with them in the way compilers do (file:line: what)."""

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from belljar.discovery import discover
from belljar.errors import BelljarError
from belljar.policy import (
    Document,
    InvalidPolicyError,
    Problem,
    ResolvedPolicy,
    guess_syntax,
    read_policy,
    resolve,
)
from belljar.sandbox.files.sockets import commanding
from belljar.statedir import known_states

STDIN = "-"
MAX_BYTES = 64 << 20


class UnreadableFileError(BelljarError):
    """A file that is not there, or that cannot be read as text."""


class InvalidFileError(BelljarError):
    """A policy file that is refused; the text lists every problem with its place."""


class PolicyFile(NamedTuple):
    """A policy file that holds: what it says, and what that means on this machine."""

    name: str
    document: Document
    resolved: ResolvedPolicy

    def warnings(self, prefix: str) -> list[str]:
        """Return what is odd about it, each as its place, a prefix and the warning."""
        found = (*self.document.warnings, *self.resolved.expansion.warnings)
        return [_located(self.name, self.document, problem, prefix) for problem in found]


def read_source(path: str) -> str:
    """Return the text of a file, or of standard input for ``-``. Raises UnreadableFileError."""
    try:
        return _read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"{shown(path)} is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except FileNotFoundError:
        raise UnreadableFileError(f"{shown(path)} does not exist; check the path") from None
    except IsADirectoryError:
        raise UnreadableFileError(f"{shown(path)} is a directory; name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFileError(f"{shown(path)} cannot be read: {reason}") from None


def load_document(path: str) -> Document:
    """Read a policy file, for another machine. Raises UnreadableFileError or InvalidFileError."""
    text = read_source(path)
    try:
        return read_policy(text, guess_syntax(text, path))
    except InvalidPolicyError as error:
        raise InvalidFileError(_listed(shown(path), None, error.problems)) from None


def load_policy(path: str, exposed: Iterable[Path] = ()) -> PolicyFile:
    """Read a policy file, and find out what it means here, for sandboxes that can write to what is exposed.

    Raises UnreadableFileError or InvalidFileError.
    """
    document = load_document(path)
    try:
        resolved = resolve(document.policy, discover=partial(discover, exposed=tuple(exposed)))
    except InvalidPolicyError as error:
        raise InvalidFileError(_listed(shown(path), document, error.problems)) from None
    if commands := [Problem(*found) for found in commanding(document.policy.services, known_states(os.environ))]:
        raise InvalidFileError(_listed(shown(path), document, commands))
    return PolicyFile(shown(path), document, resolved)


def shown(path: str) -> str:
    """Return how a file is called in messages: on one line, whatever its name holds."""
    if path == STDIN:
        return "standard input"
    name = click.format_filename(path)
    return name if name and name.isprintable() else ascii(name)


def _read_bytes(path: str) -> bytes:
    if path != STDIN:
        with open(path, "rb") as file:  # noqa: PTH123 - for Path, no name means the working directory
            raw = file.read(MAX_BYTES + 1)
    elif sys.stdin is None:  # closed by who started us
        raise UnreadableFileError("standard input is closed; name a file")
    else:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise UnreadableFileError(f"{shown(path)} is larger than {MAX_BYTES >> 20} MiB, which no policy is")
    return raw


def _listed(name: str, document: Document | None, problems: Iterable[Problem]) -> str:
    lines = [_located(name, document, problem, "error: ") for problem in problems]
    return f"{name} is not a valid policy:\n" + "\n".join(lines)


def _located(name: str, document: Document | None, problem: Problem, prefix: str) -> str:
    line = problem.line
    if line is None and document is not None:
        line = document.lines.of(problem.where)
    place = name if line is None else f"{name}:{line}"
    return f"{place}: {prefix}{problem}"
