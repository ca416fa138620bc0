"""Streams of server-sent events: bytes as they come in, events out."""

from typing import NamedTuple


class ServerSent(NamedTuple):
    """One event. One without data says no more than where the stream is."""

    event: str
    data: str
    id: str


class EventParser:
    """Puts events together, however they were cut on the way."""

    def __init__(self) -> None:
        self._partial = b""
        self._fields: dict[str, str] = {}

    def feed(self, chunk: bytes) -> list[ServerSent]:
        """Take some bytes, and return the events that are complete by now."""
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        found = []
        for line in lines:
            text = line.removesuffix(b"\r").decode(errors="replace")
            if text:
                name, _, value = text.partition(":")
                self._fields[name] = value.removeprefix(" ")
            elif "data" in self._fields or "id" in self._fields:
                found.append(ServerSent(*(self._fields.get(name, "") for name in ServerSent._fields)))
                self._fields = {}
            else:
                self._fields = {}  # a comment, which keeps the stream alive
        return found
