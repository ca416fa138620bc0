"""A place in the stream of events, from which it can be gone on with after the connection was lost."""

from typing import Final

from belljar.client import calls
from belljar.client.asking import Request
from belljar.client.model import Event
from belljar.client.sse import EventParser

_LAST: Final = "sandbox.deleted"
PAUSES: Final = (0.1, 0.2, 0.5, *(1.0,) * 60)
"""Seconds to wait before each try to connect again, while the server is being started anew."""


class Following:
    """Where somebody is in the events of a sandbox, or of all."""

    def __init__(self, sandbox: str | None, after: int | None, *, follow: bool) -> None:
        self._sandbox, self._after, self._follow = sandbox, after, follow
        self._parser = EventParser()
        self.is_over = False
        """Whether there is nothing more to come."""

    def request(self) -> Request:
        """Return what to ask for to go on from here."""
        self._parser = EventParser()
        return calls.events(self._sandbox, self._after, follow=self._follow)

    def feed(self, chunk: bytes) -> list[Event]:
        """Take some bytes of the stream, and return the events that are complete by now."""
        found = []
        for sent in self._parser.feed(chunk):
            if sent.id.isdecimal():
                self._after = int(sent.id)
            if sent.data:
                found.append(calls.read_event(sent.data, sent.id))
        self.is_over |= self._sandbox is not None and any(event.event == _LAST for event in found)
        return found

    def end(self) -> None:
        """Note that the stream has ended of itself: one that does not follow is over then."""
        self.is_over |= not self._follow
