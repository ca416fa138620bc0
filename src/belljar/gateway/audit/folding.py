"""What was allowed, told in full up to a generous rate, and summed up beyond it.

A sandbox may do as much as it likes of what its policy allows, and each connection or question is a line. So that this
fills neither a disk nor a database, lines beyond the rate are counted, by what they are about, and told as one
`traffic.folded` for each of these within some seconds. Nothing that was denied is ever among them.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from belljar.gateway.audit.events import EVENTS, DnsAnswered, Event, FlowAllowed, FlowClosed, TrafficFolded
from belljar.gateway.io.tokenbucket import TokenBucket

LINES_PER_SECOND: Final = 100
LINES_AT_ONCE: Final = 1000
INTERVAL: Final = 10.0

_MOST_SUBJECTS: Final = 256
_FOLDED: Final = (FlowAllowed, FlowClosed, DnsAnswered)

Subject: TypeAlias = tuple[str, str | None, str | None, int | None]
"""The event, the protocol, the name or first address, and the port."""


class _Sum(NamedTuple):
    lines: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class _Traffic:
    """That of one sandbox."""

    def __init__(self) -> None:
        self.lines = TokenBucket(LINES_PER_SECOND, LINES_AT_ONCE)
        self.sums: dict[Subject, _Sum] = {}
        self.due = 0.0
        """When to tell the sums, if there are any."""


class Folding:
    """Decides which lines are told in full, for any number of sandboxes."""

    def __init__(self) -> None:
        self._sandboxes: dict[str | None, _Traffic] = {}

    def folds(self, sandbox: str | None, event: Event, now: float) -> bool:
        """Tell whether an event is not to be told in full; then it is counted."""
        if not isinstance(event, _FOLDED):
            return False
        traffic = self._sandboxes.get(sandbox)
        if traffic is None:
            traffic = self._sandboxes[sandbox] = _Traffic()
        if traffic.lines.admit(now):
            return False
        if not traffic.sums:
            traffic.due = now + INTERVAL
        subject = _subject(event)
        if subject not in traffic.sums and len(traffic.sums) >= _MOST_SUBJECTS:
            subject = (subject[0], subject[1], None, None)
        before, up, down = traffic.sums.get(subject, _Sum()), 0, 0
        if isinstance(event, FlowClosed):
            up, down = event.bytes_up, event.bytes_down
        traffic.sums[subject] = _Sum(before.lines + 1, before.bytes_up + up, before.bytes_down + down)
        return True

    def take_due(self, now: float) -> Iterator[tuple[str | None, TrafficFolded]]:
        """Yield the sums that are to be told by now."""
        for sandbox, traffic in self._sandboxes.items():
            if traffic.sums and traffic.due <= now:
                yield from _told(sandbox, traffic)

    def take_all(self, sandbox: str | None) -> Iterator[tuple[str | None, TrafficFolded]]:
        """Yield the sums of a sandbox that has ended, and forget it."""
        traffic = self._sandboxes.pop(sandbox, None)
        if traffic is not None:
            yield from _told(sandbox, traffic)

    def take_rest(self) -> Iterator[tuple[str | None, TrafficFolded]]:
        """Yield all sums: the log is about to end."""
        for sandbox in list(self._sandboxes):
            yield from self.take_all(sandbox)


def _told(sandbox: str | None, traffic: _Traffic) -> Iterator[tuple[str | None, TrafficFolded]]:
    sums, traffic.sums = traffic.sums, {}
    for subject, total in sums.items():
        yield sandbox, TrafficFolded(*subject, *total)


def _subject(event: FlowAllowed | FlowClosed | DnsAnswered) -> Subject:
    if isinstance(event, DnsAnswered):
        return EVENTS[DnsAnswered], event.transport, event.name, None
    return EVENTS[type(event)], event.protocol, event.name or next(iter(event.addresses), None), event.port
