"""First lines that do not end, as of a client that sends a long text in another protocol than HTTP.

Only where a line ends can it be told from that of a request, and until then everything has to be kept that makes
a difference: how it begins, whether a second word is a path, whether "HTTP" stands in it. `LongLine` lets that pass and
leaves out the rest of a line without end, so that whoever reads what it lets pass comes to the same conclusion, and
keeps little. What no server could act on so far can be passed on, and then be forgotten.
"""

import re
from typing import Final

from belljar.wire.http.syntax import RefusedHeadError, check_may_be_request_line

_MAX_WORD: Final = 255
_MAX_TEXT: Final = 4096
_WORD: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*+")
_SECOND_WORD: Final = re.compile(rb"\S++\s++[^\s/]")
_TELLING: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]|(?i:http)")
_OVERLAP: Final = 3


class LongLine:
    """Leaves out of a first line what makes no difference."""

    __slots__ = ("_in_word", "_last", "_line", "_tells", "is_long")

    def __init__(self) -> None:
        self._line = bytearray()  # how it begins
        self._in_word = True  # the first word has not ended
        self._last = b""  # the last bytes of a text that is long, in case they are half of a telling word
        self._tells = False  # nothing is left out any more
        self.is_long = False
        """Whether something was left out."""

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes, and return those that matter."""
        if self._tells:
            return data
        if self._in_word:
            return self._take_word(data)
        if self.is_long and len(self._line) >= _MAX_TEXT:
            return self._take_dull_text(data)
        return self._take_text(data)

    def _take_word(self, data: bytes) -> bytes:
        word = _WORD.match(data)
        end = word.end() if word else 0
        kept = data[: min(end, _MAX_WORD - len(self._line))]
        self._line += kept
        self.is_long = self.is_long or len(kept) < end
        if end == len(data):
            return kept
        self._in_word = False
        return kept + self._take_text(data[end:])

    def _take_text(self, data: bytes) -> bytes:
        room = _MAX_TEXT - len(self._line)
        kept, rest = data[:room], data[room:]
        self._line += kept
        if not rest:
            return kept
        if _may_be_request_line(bytes(self._line)) or not _SECOND_WORD.match(self._line):
            self._tells = True
            return data
        self.is_long = True
        self._last = bytes(self._line[-_OVERLAP:])
        return kept + self._take_dull_text(rest)

    def _take_dull_text(self, data: bytes) -> bytes:
        text = self._last + data
        telling = _TELLING.search(text)
        if telling is None:
            self._last = text[-_OVERLAP:]
            return b""
        self._tells = True
        return text[telling.start() :]


def _may_be_request_line(line: bytes) -> bool:
    try:
        check_may_be_request_line(line)
    except RefusedHeadError:
        return False
    return True
