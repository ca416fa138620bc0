"""Chat completions that are streamed say what they took only to those who ask; where there is a budget, we ask.

The request gets the option added at its end, and what comes because of it is taken out of the answer again: a chunk
without choices, which clients that did not ask for it do not expect.
"""

import json
import re
from typing import Final

ASK_FOR_USAGE: Final = b',"stream_options":{"include_usage":true}}'
"""What takes the place of the brace at the end of a request."""

_MAX_EVENT: Final = 1 << 20
_MAX_ADDITIONAL: Final = 16 << 10
"""Bytes of the additional chunk. It has a few numbers in it; an event that is longer has an answer in it."""

_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST_END: Final = 3
"""How much of an end may have arrived before the rest of it."""


class WithoutUsage:
    """Takes the additional chunk out of a stream; all else goes through once its event is whole."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0
        """How much of what is held has no end of an event in it."""

    def feed(self, data: bytes) -> bytes:
        """Return what may be sent."""
        held = self._held
        held += data
        sent, start = [], 0
        for end in _END.finditer(held, max(self._searched - _LONGEST_END, 0)):
            event = bytes(held[start : end.end()])
            start = end.end()
            if not _is_additional(event):
                sent.append(event)
        del held[:start]
        self._searched = len(held)
        if len(held) > _MAX_EVENT:
            sent.append(self.rest())
        return b"".join(sent)

    def rest(self) -> bytes:
        """Return what is left at the end."""
        held = bytes(self._held)
        self._held.clear()
        self._searched = 0
        return held


def _is_additional(event: bytes) -> bool:
    if len(event) > _MAX_ADDITIONAL or b'"usage"' not in event:
        return False
    try:
        data = json.loads(b"".join(line[5:] for line in event.splitlines() if line.startswith(b"data:")))
    except ValueError:
        return False
    return isinstance(data, dict) and data.get("choices") == [] and isinstance(data.get("usage"), dict)
