"""Who may still use a service, and what each request adds to what was used.

A budget is looked at before a request, and counted while it is under way. So the last one that is let through may
exceed it, and so may those that are under way at the same time; `at_once` bounds these.
"""

from collections import Counter
from typing import Final

from belljar.broker.preamble import Preamble
from belljar.broker.refusals import RefusedRequest
from belljar.broker.secretsfile import UserFileError
from belljar.broker.spending.ledger import Amounts, Key, SpendingLedger
from belljar.broker.spending.prices import Price, Prices
from belljar.broker.spending.usage import TokenUsage
from belljar.policy.services import Budget

_WORDS: Final = {
    "requests": "requests",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "dollars": "dollars",
    "bytes": "bytes",
}
_BYTES_BETWEEN: Final = 1 << 20
"""How many bytes go by, at most, before they are written down."""


def own_key(preamble: Preamble) -> Key:
    """Return what a sandbox's use of a service is counted by."""
    return ("sandbox", preamble.sandbox, preamble.service.name)


class Budgets:
    """The budgets of all sandboxes and groups."""

    def __init__(self, ledger: SpendingLedger, prices: Prices) -> None:
        self._ledger = ledger
        self._prices = prices
        self._under_way = Counter[Key]()

    def admit(self, preamble: Preamble, model: str | None) -> "Spending":
        """Let a request through, and count it from here on. Raises RefusedRequest."""
        budgets = _budgets_of(preamble)
        for key, budget in budgets:
            self._check(key, budget)
        price = self._price(model, required=any(budget.dollars is not None for _, budget in budgets))
        return Spending(self._ledger, self._under_way, [key for key, _ in budgets], price)

    def used(self, key: Key) -> Amounts:
        """Return how much has been used."""
        return self._ledger.used(key)

    def _check(self, key: Key, budget: Budget) -> None:
        whose = f"the sandboxes of the group {key[1]}" if key[0] == "group" else "this sandbox"
        if budget.at_once is not None and self._under_way[key] >= budget.at_once:
            raise RefusedRequest(
                429,
                "budget.at_once",
                f"{whose} may have {budget.at_once} requests under way at the same time; wait for one to end",
                retry_after=1,
            )
        used = self._ledger.used(key)
        for name, words in _WORDS.items():
            bound, count = getattr(budget, name), getattr(used, name)
            if bound is not None and count >= bound:
                raise RefusedRequest(
                    429,
                    f"budget.{name}",
                    f"the budget is used up: {whose} had {bound:g} {words} and used {count:g}; retrying is no use, "
                    "the user has to allow more",
                )

    def _price(self, model: str | None, *, required: bool) -> Price | None:
        try:
            price = self._prices.of(model) if model is not None else None
        except UserFileError as error:
            if required:
                raise RefusedRequest(403, "price", f"there is a budget in dollars, and {error}") from None
            return None
        if required and price is None:
            raise RefusedRequest(
                403,
                "price",
                f"there is a budget in dollars, and no price for {model or 'a request that names no model'} in "
                f"{self._prices.place}; the user has to write it there, in dollars per million tokens",
            )
        return price


class Spending:
    """What one request uses, counted as it becomes known."""

    def __init__(self, ledger: SpendingLedger, under_way: Counter[Key], keys: list[Key], price: Price | None) -> None:
        self._ledger, self._under_way, self._keys, self._price = ledger, under_way, keys, price
        self._usage = TokenUsage()
        self._bytes = 0
        self._add(Amounts(requests=1))
        under_way.update(keys)

    @property
    def dollars(self) -> float | None:
        """What it has cost so far, if there is a price."""
        return self._price.of(self._usage) if self._price else None

    def passed(self, count: int) -> None:
        """Count bytes."""
        self._bytes += count
        if self._bytes >= _BYTES_BETWEEN:
            self._write_bytes()

    def tell(self, usage: TokenUsage) -> None:
        """Count tokens, of which the total is known."""
        if usage == self._usage:
            return
        before, self._usage = self._usage, usage
        price = self._price
        self._add(
            Amounts(
                input_tokens=usage.input - before.input,
                output_tokens=usage.output - before.output,
                dollars=price.of(usage) - price.of(before) if price else 0.0,
                bytes=self._bytes,
            )
        )
        self._bytes = 0

    def close(self) -> None:
        """End the request."""
        for key in self._keys:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
        self._write_bytes()

    def _write_bytes(self) -> None:
        self._add(Amounts(bytes=self._bytes))
        self._bytes = 0

    def _add(self, more: Amounts) -> None:
        try:
            for key in self._keys:
                self._ledger.add(key, more)
        except OSError as error:
            raise RefusedRequest(503, "ledger", f"what is used cannot be written down here: {error.strerror}") from None


def _budgets_of(preamble: Preamble) -> list[tuple[Key, Budget]]:
    service = preamble.service
    own = (own_key(preamble), service.budget)
    return [own] if service.shared is None else [own, (("group", service.shared.group), service.shared.budget)]
