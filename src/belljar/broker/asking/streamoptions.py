"""Chat completions that are streamed say what they took only to those who ask; where there is a budget, we ask.

The request gets the option added at its end, and what comes because of it is taken out of the answer again: a chunk
without choices, which clients that did not ask for it do not expect.
"""

import json
import re
from typing import Any, Final

from belljar.broker.refusals import RefusedRequest

_OPTION: Final = b'"stream_options":{"include_usage":true}}'
_MOST_EVENT: Final = 1 << 20
_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def ask_for_usage(body: bytes, request: dict[str, Any]) -> bytes | None:
    """Return a request that asks for it, or None if it does already or there is no need. Raises RefusedRequest."""
    stream = request.get("stream")
    if stream is not None and not isinstance(stream, bool):  # which some take for true
        raise RefusedRequest(400, "form", "stream is to be true or false")
    if not stream:
        return None
    options = request.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage") is True:
        return None
    if options is not None:
        raise RefusedRequest(
            403,
            "stream_options",
            "there is a budget, and stream_options says that nothing is to be told of tokens; leave stream_options "
            "out, or have include_usage be true",
        )
    return body.rstrip()[:-1] + b"," + _OPTION


class WithoutUsage:
    """Takes the additional chunk out of a stream; all else goes through once its event is whole."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what may be sent."""
        self._held += data
        sent, start = [], 0
        for end in _END.finditer(self._held):
            event = self._held[start : end.end()]
            start = end.end()
            if not _is_additional(event):
                sent.append(event)
        self._held = self._held[start:]
        if len(self._held) > _MOST_EVENT:
            sent.append(self.rest())
        return b"".join(sent)

    def rest(self) -> bytes:
        """Return what is left at the end."""
        held, self._held = self._held, b""
        return held


def _is_additional(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    try:
        data = json.loads(b"".join(line[5:] for line in event.splitlines() if line.startswith(b"data:")))
    except ValueError:
        return False
    return isinstance(data, dict) and data.get("choices") == [] and isinstance(data.get("usage"), dict)
