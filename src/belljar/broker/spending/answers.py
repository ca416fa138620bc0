"""What an answer says of itself while it goes by: the tokens that it took, and the model that it came from."""

import re
from collections.abc import Callable
from typing import Any, Final

from belljar.broker.spending.jsonscanner import ARRAY, JsonScanner, Path
from belljar.broker.spending.usage import TokenUsage, read_usage, tokens_of

_USAGE: Final = frozenset({(b"usage",), (b"usageMetadata",), (b"message", b"usage"), (b"response", b"usage")})
_MODEL: Final = frozenset({(b"model",), (b"modelVersion",), (b"message", b"model"), (b"response", b"model")})
_IDENTIFIER: Final = frozenset({(b"id",), (b"response", b"id"), (b"item", b"id"), (b"output", ARRAY, b"id")})
_LINE_ENDS: Final = (b"\n", b"\r\n", b"\r")
_FIELD: Final = b"data:"
_TEXT: Final = re.compile(
    rb'"(?:text|content|delta|thinking|partial_json|arguments|input|refusal|reasoning|reasoning_content)"\s*:\s*"'
    rb'((?:[^"\\]|\\.)*+)'
)
"""What an event adds to the answer, in the known APIs. It may be cut off where a part of the answer ends."""

_TELLING: Final = (b"usage", b"model", b'"item"')


class Answer:
    """Is fed an answer's body, and knows what it has said so far."""

    def __init__(self, content_type: bytes, remember: Callable[[str], None] | None = None) -> None:
        """Read an answer of a content type; `remember` is called with the identifiers of what the provider stores."""
        self._remember = remember
        self.usage = TokenUsage()
        self.model: str | None = None
        kind = content_type.partition(b";")[0].strip().lower()
        self._scanner = JsonScanner(_USAGE | _MODEL | (_IDENTIFIER if remember else frozenset()), self._found)
        self._events = _Events(self._scanner) if kind == b"text/event-stream" else None
        self._is_json = kind.endswith(b"json")
        self._is_whole = True

    @property
    def is_stream(self) -> bool:
        """Whether it is a stream of events."""
        return self._events is not None

    @property
    def can_be_read(self) -> bool:
        """Whether it is in a form in which an answer says what it took."""
        return self.is_stream or self._is_json

    def feed(self, data: bytes) -> None:
        """Read on."""
        if self._events is not None:
            self._events.feed(data)
        elif self._is_json:
            self._scanner.feed(data)

    def cut_off(self) -> None:
        """Count what was seen of a stream that has no end: an event has a token in it, or as many as its text."""
        self._is_whole = False
        if self._events is not None:
            self.usage = self.usage._replace(output=max(self.usage.output, self._events.tokens))

    def estimate(self, sent: int, received: int, expected_output: int) -> None:
        """Count what was not reported, by the bytes of the request and of the answer.

        A client that leaves with an answer just before its usage comes has had it all the same; and an answer that is
        no stream was complete before its first byte came.
        """
        if self._is_whole and any(self.usage):
            return
        if self._events is not None:
            output = self._events.tokens
        else:
            output = tokens_of(received) if self._is_whole else max(tokens_of(received), expected_output)
        self.usage = self.usage._replace(
            input=self.usage.input or tokens_of(sent), output=max(self.usage.output, output)
        )

    def _found(self, path: Path, value: Any) -> None:
        if path in _USAGE:
            self.usage = self.usage.merged(read_usage(value))
        elif path in _IDENTIFIER:
            if self._remember is not None and isinstance(value, str):
                self._remember(value)
        elif isinstance(value, str) and self.model is None:
            self.model = value[:200]


class _Events:
    """Server-sent events, of which the data is handed on; none of it is kept."""

    def __init__(self, scanner: JsonScanner) -> None:
        self._scanner = scanner
        self._line = b""
        """The beginning of a line of which it is not known yet what it is."""

        self._is_data: bool | None = None
        self._has_data = self._after_return = False
        self._text = 0
        """Bytes of the text of the event that is being read."""

        self.tokens = 0

    def feed(self, data: bytes) -> None:
        if not data:
            return
        if self._after_return:
            data = data.removeprefix(b"\n")
        self._after_return = data.endswith(b"\r")
        lines = data.splitlines(keepends=True)
        for line, following in zip(lines, [*lines[1:], b""], strict=False):
            text = line.rstrip(b"\r\n")
            if following in _LINE_ENDS and self._says_nothing(text):
                self._has_data = True
                self._text += _text_in(text)
            else:
                self._read(text)
            if len(text) < len(line):
                self._end_line()

    def _says_nothing(self, line: bytes) -> bool:
        """Tell whether a line is the whole of an event that need not be taken apart. Most are."""
        is_whole = self._is_data is None and not self._line and not self._has_data and line.startswith(_FIELD)
        return is_whole and not any(word in line for word in _TELLING)

    def _read(self, part: bytes) -> None:
        continues = self._is_data is not None
        if self._is_data is None:
            self._line += part
            if len(self._line) < len(_FIELD) and _FIELD.startswith(self._line):
                return
            self._is_data = self._line.startswith(_FIELD)
            part, self._line = self._line[len(_FIELD) :], b""
        if self._is_data:
            self._has_data = True
            self._text += len(part) if continues else _text_in(part)  # what is longer than a part is mostly text
            self._scanner.feed(part)

    def _end_line(self) -> None:
        if self._is_data is None and not self._line and self._has_data:
            self.tokens += max(tokens_of(self._text), 1)
            self._has_data, self._text = False, 0
            self._scanner.reset()
        self._is_data, self._line = None, b""


def _text_in(data: bytes) -> int:
    return sum(map(len, _TEXT.findall(data)))
