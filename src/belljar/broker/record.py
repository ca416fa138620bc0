"""What becomes of a request: what it used, counted while it is under way, and the event that tells of it at its end."""

import time
from contextlib import suppress
from typing import Any, Final

from belljar.broker.asking.requests import path_of
from belljar.broker.events import Events, plain
from belljar.broker.http.exchange import Exchange
from belljar.broker.preamble import Preamble, limits
from belljar.broker.refusals import RefusedRequest
from belljar.broker.spending.answers import Answer
from belljar.broker.spending.budgets import Budgets, Spending, own_key

_CLIENT_GONE: Final = 499


class RequestRecord:
    """One request, as it will be told of."""

    def __init__(self, preamble: Preamble, exchange: Exchange) -> None:
        self._preamble, self._exchange = preamble, exchange
        self._started = time.monotonic()
        self._up = self._down = 0
        self.status = _CLIENT_GONE
        self.refused: str | None = "client.gone"
        self.model: str | None = None
        self.answer: Answer | None = None
        self.spending: Spending | None = None
        self.is_estimated = False
        """Whether tokens that the answer does not tell of are counted by its bytes."""

    def sent(self, data: bytes) -> None:
        """Count bytes of the request."""
        self.passed(len(data), 0)

    def received(self, data: bytes) -> None:
        """Count bytes of the answer, and what they say."""
        self.passed(0, len(data))
        if self.answer is not None and self.spending is not None:
            self.answer.feed(data)
            self.spending.tell(self.answer.usage)

    def passed(self, up: int, down: int) -> None:
        """Count bytes both ways."""
        self._up += up
        self._down += down
        if self.spending is not None:
            self.spending.passed(up + down)

    def cut_off(self) -> None:
        """Note that the answer has no end."""
        self.refused = "cut.off"
        if self.answer is not None:
            self.answer.cut_off()

    def end(self, budgets: Budgets, events: Events) -> None:
        """Count what is left, and tell."""
        if self.answer is not None and self.is_estimated:
            self.answer.estimate(self._up, self._down)
        if self.spending is not None:
            with suppress(RefusedRequest):  # nobody is left who could be told that it cannot be written down
                if self.answer is not None:
                    self.spending.tell(self.answer.usage)
            with suppress(RefusedRequest):
                self.spending.close()
        events.tell(self._event(budgets))

    def _event(self, budgets: Budgets) -> dict[str, Any]:
        usage = self.answer.usage if self.answer else None
        model = self.model or (self.answer.model if self.answer else None)
        dollars = self.spending.dollars if self.spending else None
        optional = {
            "model": None if model is None else plain(model),
            "refused": self.refused,
            "dollars": None if dollars is None else round(dollars, 9),
        }
        return {
            "event": "request",
            "sandbox": self._preamble.sandbox,
            "service": self._preamble.service.name,
            "method": plain(self._exchange.method),
            "path": plain(path_of(self._exchange)),
            "status": self.status,
            **{name: value for name, value in optional.items() if value is not None},
            "input_tokens": usage.input if usage else 0,
            "output_tokens": usage.output if usage else 0,
            "bytes_up": self._up,
            "bytes_down": self._down,
            "seconds": round(time.monotonic() - self._started, 3),
            "used": budgets.used(own_key(self._preamble))._asdict(),
            "budget": limits(self._preamble.service.budget),
        }
