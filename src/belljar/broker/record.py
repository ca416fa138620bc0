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
from belljar.broker.spending.budgets import Budgets, own_key
from belljar.broker.spending.spending import Spending
from belljar.broker.spending.usage import TokenUsage, tokens_of

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
        """Whether tokens that the provider does not report are counted by bytes."""

        self._lost = TokenUsage()
        """What was used by a request that has no answer."""

    @property
    def usage(self) -> TokenUsage:
        """The tokens that were used, as far as it is known."""
        return self._lost if self.answer is None else self.answer.usage

    def sent(self, data: bytes) -> None:
        """Count bytes of the request."""
        self.passed(len(data), 0)

    def received(self, data: bytes) -> None:
        """Count bytes of the answer, and the tokens that they report."""
        self.passed(0, len(data))
        if self.answer is None or self.spending is None:
            return
        knew_model = self.answer.model is not None
        self.answer.feed(data)
        if self.answer.model is not None and not knew_model:
            self.spending.answered_by(self.answer.model)
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
        if self.spending is not None:
            self._estimate(self.spending)
            with suppress(RefusedRequest):  # nobody is left who could be told that it cannot be written down
                self.spending.tell(self.usage)
            with suppress(RefusedRequest):
                self.spending.close()
        events.tell(self._event(budgets))

    def _estimate(self, spending: Spending) -> None:
        """Estimate what the provider has not reported of a request that it has, or a part of it."""
        if not self.is_estimated or not self._up:
            return
        if self.answer is None:
            self._lost = TokenUsage(tokens_of(self._up), spending.expected.output)
        else:
            self.answer.estimate(self._up, self._down, spending.expected.output)

    def _event(self, budgets: Budgets) -> dict[str, Any]:
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
            "input_tokens": self.usage.input,
            "output_tokens": self.usage.output,
            "bytes_up": self._up,
            "bytes_down": self._down,
            "seconds": round(time.monotonic() - self._started, 3),
            "used": budgets.used(own_key(self._preamble))._asdict(),
            "budget": limits(self._preamble.service.budget),
        }
