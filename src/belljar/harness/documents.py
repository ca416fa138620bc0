"""Documents of the harness, read strictly: every value by its type, and all problems of a file in one error.

A task that is read differently from how it was meant gives scores that mean nothing. So nothing is guessed and no key
is passed over: a key that is unknown or stands twice, text where a number is expected and the like are errors, each
with its place, its line where the syntax gives one, and the remedy.
"""

import os
import stat
from pathlib import Path
from typing import Final

from belljar.errors import BelljarError, printable, reason
from belljar.policy.language.problems import Problem
from belljar.policy.language.reading import EMPTY, NOWHERE, TOO_DEEP, Lines, UnreadableError
from belljar.policy.language.syntax import Syntax, read_text

MAX_BYTES: Final = 16 << 20
"""Tasks carry small files in their commands; beyond this something else was named."""

_NEUTRAL: Final = {EMPTY: "is empty; write the keys that it needs", TOO_DEEP: "is nested too deeply"}
"""What the readers say of policies, said of any document."""


class UnreadableDocumentError(BelljarError):
    """A file that is not there, or that cannot be read as text."""


class InvalidDocumentError(BelljarError):
    """A file that is refused; the text lists every problem with its place."""


class StrictDocument:
    """A file, what is in it, and what is wrong with that."""

    def __init__(self, path: Path, kind: str, syntax: Syntax) -> None:
        """Read a file. Raises UnreadableDocumentError and InvalidDocumentError."""
        self.path = path
        self.kind = kind
        """What the file is, for messages: "task", "benchmark"."""

        self.raw = read_file(path)
        self._problems: list[Problem] = []
        self._text = _decode(path, self.raw)
        self._lines: Lines | None = None
        try:
            reading = read_text(self._text, syntax)
        except UnreadableError as error:
            self._problems.append(Problem("", _NEUTRAL.get(str(error), str(error)), error.line))
            raise self._error() from None
        if syntax is Syntax.YAML:
            self._lines = reading.lines
        self.data = reading.data
        for where, line in reading.twice:
            self._problems.append(Problem(where, "stands twice; keep one of them", line))

    def fail(self, where: str, message: str) -> None:
        """Note a problem. `where` is a path such as ``judge.eval_timeout``, empty for the document as a whole."""
        self._problems.append(Problem(where, message))

    def check(self) -> None:
        """Raise InvalidDocumentError if there are any problems."""
        if self._problems:
            raise self._error()

    def _error(self) -> InvalidDocumentError:
        lines = self._known_lines()
        located = [problem._replace(line=problem.line or lines.of(problem.where)) for problem in self._problems]
        located.sort(key=lambda problem: problem.line or 0)
        name = shown(self.path)
        texts = [
            f"{name}{f':{line}' if line else ''}: error: {printable(where) or f'the {self.kind}'}"
            f"{':' if where else ''} {printable(message)}"
            for where, message, line in located
        ]
        return InvalidDocumentError(f"{name} is not a valid {self.kind}:\n" + "\n".join(texts))

    def _known_lines(self) -> Lines:
        if self._lines is None:
            # Most JSON is YAML too, and the YAML reader keeps lines. Where it fails, as at tabs, there are none.
            try:
                self._lines = read_text(self._text, Syntax.YAML).lines
            except UnreadableError:
                self._lines = NOWHERE
        return self._lines


def shown(path: Path) -> str:
    """Return how a file is called in messages: on one line, whatever its name holds."""
    return printable(str(path))


def read_file(path: Path) -> bytes:
    """Return what is in a regular file of bounded size. Raises UnreadableDocumentError."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UnreadableDocumentError(f"{shown(path)} is not a regular file; name one")
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableDocumentError(f"{shown(path)} does not exist; check the path") from None
    except IsADirectoryError:
        raise UnreadableDocumentError(f"{shown(path)} is a directory; name a file in it") from None
    except (OSError, ValueError) as error:
        raise UnreadableDocumentError(f"{shown(path)} cannot be read: {reason(error)}") from None
    if len(content) > MAX_BYTES:
        raise UnreadableDocumentError(f"{shown(path)} is larger than {MAX_BYTES >> 20} MiB; name another file")
    return content


def _open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, as for the writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def _decode(path: Path, raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableDocumentError(
            f"{shown(path)} is not UTF-8 text (byte {error.start}); save it as UTF-8"
        ) from None
