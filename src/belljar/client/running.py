"""The output of a command as it comes: events of the stream, read."""

import base64
import json
from collections.abc import Mapping
from typing import Any, Final, Literal

from belljar.client.errors import LostError, error_of, understanding
from belljar.client.model import ExecResult, Output
from belljar.client.reading import exec_end
from belljar.client.sse import EventParser, ServerSent

_STREAMS: Final[Mapping[str, Literal["stdout", "stderr"]]] = {"stdout": "stdout", "stderr": "stderr"}


class OutputReader:
    """Reads the stream of a command."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self.result: ExecResult | None = None
        """How it ended, once it has; its output is not kept."""

    def feed(self, chunk: bytes) -> list[Output]:
        """Take some bytes of the stream, and return what the command has written. Raises ClientError."""
        return [output for sent in self._parser.feed(chunk) if (output := self._read(sent)) is not None]

    def ended(self) -> ExecResult:
        """Return how the command ended. Raises LostError."""
        if self.result is None:
            raise LostError("the server went away before the command ended; look whether it still runs")
        return self.result

    def _read(self, sent: ServerSent) -> Output | None:
        with understanding("the output of the command"):
            data: dict[str, Any] = json.loads(sent.data)
            if (stream := _STREAMS.get(sent.event)) is not None:
                return Output(stream, base64.b64decode(data["data"]))
            if sent.event == "exit":
                self.result = exec_end(data)
        if sent.event == "problem":
            raise error_of(data)
        return None
