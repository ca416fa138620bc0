"""Which requests may still be sent, and what each adds to what was used.

Theory of operation
-------------------
A budget is looked at before a request, and counted while it is under way. What it may still use until it ends is
reserved: its tokens by its size, and those of its answer by the bound that it sets itself. Further requests are let
through only while what was used and what is reserved leave something of the budget. So one request may exceed it, the
last, and not as many as are sent at the same time.
"""

from typing import Final

from belljar.broker.preamble import Preamble
from belljar.broker.refusals import RefusedRequest
from belljar.broker.secretsfile import UserFileError
from belljar.broker.spending.ledger import Amounts, Key, SpendingLedger
from belljar.broker.spending.prices import Price, Prices, UnknownPriceError
from belljar.broker.spending.spending import Demand, Pricing, Spending, UnderWay
from belljar.policy.services import Budget

_WORDS: Final = {
    "requests": "requests",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "dollars": "dollars",
    "bytes": "bytes",
}


def own_key(preamble: Preamble) -> Key:
    """Return what a sandbox's use of a service is counted by."""
    return ("sandbox", preamble.sandbox, preamble.service.name)


class Budgets:
    """The budgets of all sandboxes and groups."""

    def __init__(self, ledger: SpendingLedger, prices: Prices) -> None:
        self._ledger = ledger
        self._prices = prices
        self._under_way = UnderWay()

    def admit(self, preamble: Preamble, demand: Demand) -> "Spending":
        """Let a request through, and count it from here on. Raises RefusedRequest."""
        try:
            with self._ledger.held():
                return self._admit(preamble, demand)
        except OSError as error:
            raise RefusedRequest(503, "ledger", f"what was used cannot be read here: {error.strerror}") from None

    def _admit(self, preamble: Preamble, demand: Demand) -> "Spending":
        budgets = _budgets_of(preamble)
        for key, budget in budgets:
            self._check(key, budget)
        price = self._price(demand, required=any(budget.dollars is not None for _, budget in budgets))
        pricing = Pricing(self._prices, demand, price)
        return Spending(self._ledger, self._under_way, [key for key, _ in budgets], pricing)

    def used(self, key: Key) -> Amounts:
        """Return how much has been used."""
        return self._ledger.used(key)

    def _check(self, key: Key, budget: Budget) -> None:
        whose = f"the sandboxes of the group {key[1]}" if key[0] == "group" else "this sandbox"
        if budget.at_once is not None and self._under_way.requests(key) >= budget.at_once:
            raise RefusedRequest(
                429,
                "budget.at_once",
                f"{whose} may have {budget.at_once} requests under way at the same time; wait for one to end",
                retry_after=1,
            )
        used, reserved = self._ledger.used(key), self._under_way.reserved(key)
        for name, words in _WORDS.items():
            bound, count = getattr(budget, name), getattr(used, name)
            if bound is None:
                continue
            if count >= bound:
                raise RefusedRequest(
                    429,
                    f"budget.{name}",
                    f"the budget is used up: {whose} used {count:g} of {bound:g} {words}; retrying is no use, "
                    "the user has to allow more",
                )
            if count + getattr(reserved, name) >= bound:
                raise RefusedRequest(
                    429,
                    "budget.reserved",
                    f"requests under way may use what is left of the budget: {whose} used {count:g} of "
                    f"{bound:g} {words}; wait for one to end",
                    retry_after=1,
                )

    def _price(self, demand: Demand, *, required: bool) -> Price | None:
        try:
            return self._prices.of(demand.models, demand.options)
        except UserFileError as error:
            if required:
                raise RefusedRequest(403, "price", f"there is a budget in dollars, and {error}") from None
        except UnknownPriceError as error:
            if required:
                raise RefusedRequest(
                    403,
                    "price",
                    f"there is a budget in dollars, and no price for {error} in {self._prices.place}; the user has "
                    "to write it there, in dollars per million tokens",
                ) from None
        return None


def _budgets_of(preamble: Preamble) -> list[tuple[Key, Budget]]:
    service = preamble.service
    own = (own_key(preamble), service.budget)
    return [own] if service.shared is None else [own, (("group", service.shared.group), service.shared.budget)]
