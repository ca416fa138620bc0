"""Finds a few values in a JSON text that goes by, and keeps nothing else of it.

Theory of operation
-------------------
An answer may be of any size, and is not held back to be read. So the text is taken apart as it comes, into strings and
the six characters that JSON is built of, however it is cut. Where a container is opened or closed, the depth changes; a
string that a colon follows is a key. Keys of the outermost levels are remembered, and make up a path. If the path is
wanted, the bytes of its value are kept, up to a bound, and read when they have ended. A text that is no JSON finds
nothing, or nonsense, and takes no more time or memory.

An array around everything is looked through: that is how Gemini streams.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

Path = tuple[bytes, ...]

_TOKEN: Final = re.compile(rb'["{}\[\]:,]')
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)  # takes nothing back: linear
_QUOTE, _COLON, _OBJECT = b'":{'
_OPENING, _CLOSING = frozenset(b"{["), frozenset(b"}]")
_MAX_LEVELS: Final = 3
"""How deep wanted paths are, at most."""

_MOST_KEY: Final = 64
_MOST_VALUE: Final = 64 << 10
ARRAY: Final = b"[]"


class JsonScanner:
    """Is fed a text, and tells of each wanted value as it ends."""

    def __init__(self, wanted: frozenset[Path], found: Callable[[Path, Any], None]) -> None:
        self._wanted = wanted
        self._found = found
        self.reset()

    def reset(self) -> None:
        """Begin a new text."""
        self._depth = 0
        self._path: list[bytes] = []
        self._in_string = self._escaped = False
        self._string = bytearray()
        self._captured: bytearray | None = None
        self._captured_at = 0
        self._captured_path: Path = ()

    def feed(self, data: bytes) -> None:
        """Read on."""
        if not data:
            return
        self._start = 0
        position = self._end_of_string(data) if self._in_string else 0
        while match := _TOKEN.search(data, position):
            at = match.start()
            token = data[at]
            position = at + 1
            if token == _QUOTE:
                position = self._read_string(data, position)
            elif token in _OPENING:
                self._opened(array=token != _OBJECT)
            elif token in _CLOSING:
                self._closed(data, at)
            elif self._depth <= _MAX_LEVELS:
                self._read_punctuation(data, at, token)
        if self._captured is not None:
            self._keep(data, len(data))

    def _read_string(self, data: bytes, start: int) -> int:
        match = _REST_OF_STRING.match(data, start)
        if match is None:  # it ends in a later part, if at all
            self._in_string = True
            self._string.clear()
            self._keep_string(data, start)
            return len(data)
        if self._depth <= _MAX_LEVELS:
            self._string[:] = data[start : min(match.end() - 1, start + _MOST_KEY)]
        return match.end()

    def _end_of_string(self, data: bytes) -> int:
        """Return where a string ends that began in an earlier part."""
        match = _REST_OF_STRING.match(data, 1 if self._escaped else 0)
        if match is None:
            self._keep_string(data, 0)
            return len(data)
        self._string += data[: min(match.end() - 1, _MOST_KEY)]
        self._in_string = self._escaped = False
        return match.end()

    def _keep_string(self, data: bytes, start: int) -> None:
        if len(self._string) < _MOST_KEY:
            self._string += data[start : start + _MOST_KEY]
        end = data[start + (1 if self._escaped else 0) :]
        self._escaped = (len(end) - len(end.rstrip(b"\\"))) % 2 == 1

    def _read_punctuation(self, data: bytes, at: int, token: int) -> None:
        if token == _COLON:
            self._key_ended(at + 1)
        elif self._depth == self._captured_at:
            self._value_ended(data, at)

    def _opened(self, *, array: bool) -> None:
        if array and self._depth == 0:
            return
        self._depth += 1
        if self._depth <= _MAX_LEVELS:
            self._path.append(ARRAY if array else b"")

    def _closed(self, data: bytes, at: int) -> None:
        if self._depth == self._captured_at:
            self._value_ended(data, at)
        if self._depth:
            if self._depth <= _MAX_LEVELS:
                self._path.pop()
            self._depth -= 1

    def _key_ended(self, at: int) -> None:
        if self._captured is not None or not 0 < self._depth <= _MAX_LEVELS or self._path[-1] is ARRAY:
            return
        self._path[-1] = bytes(self._string)
        if (path := tuple(self._path)) in self._wanted:
            self._captured, self._captured_path, self._captured_at, self._start = bytearray(), path, self._depth, at

    def _keep(self, data: bytes, end: int) -> None:
        if self._captured is not None and len(self._captured) <= _MOST_VALUE:
            self._captured += data[self._start : min(end, self._start + _MOST_VALUE + 1)]

    def _value_ended(self, data: bytes, at: int) -> None:
        if self._captured is None:
            return
        self._keep(data, at)
        text, self._captured, self._captured_at = self._captured, None, 0
        if len(text) <= _MOST_VALUE:
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                return
            self._found(self._captured_path, value)
