"""Whose the answers are that a provider has stored.

All sandboxes may use the same account, and whoever names a stored answer gets the conversation that led to it. So a
sandbox may refer to those that it has received itself, as far as this process remembers.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from belljar.broker.refusals import RefusedRequest

_MAX_SANDBOXES: Final = 4096
_MAX_EACH: Final = 4096
"""Identifiers that are remembered of a sandbox; the oldest are forgotten."""


class StoredAnswers:
    """The identifiers of answers, and of the items in them, by the sandbox that has received them."""

    def __init__(self) -> None:
        self._received = OrderedDict[str, OrderedDict[str, None]]()

    def add(self, sandbox: str, identifier: str) -> None:
        """Remember what a sandbox has received."""
        own = self._received.setdefault(sandbox, OrderedDict())
        self._received.move_to_end(sandbox)
        own[identifier] = None
        if len(own) > _MAX_EACH:
            own.popitem(last=False)
        if len(self._received) > _MAX_SANDBOXES:
            self._received.popitem(last=False)

    def check(self, sandbox: str, references: Iterable[str]) -> None:
        """Refuse references to what others have received. Raises RefusedRequest."""
        own = self._received.get(sandbox, ())
        if any(each not in own for each in references):
            raise RefusedRequest(
                403,
                "reference",
                "the request refers to a stored answer (previous_response_id or item_reference) that this sandbox has "
                "not received since the broker was started; send the conversation itself",
            )
