"""What one request uses, or may still use, counted as it becomes known."""

from collections import Counter
from typing import Final, NamedTuple

from belljar.broker.refusals import RefusedRequest
from belljar.broker.secretsfile import UserFileError
from belljar.broker.spending.ledger import Amounts, Key, SpendingLedger
from belljar.broker.spending.prices import Price, Prices, UnknownPriceError
from belljar.broker.spending.usage import TokenUsage, tokens_of

_BYTES_BETWEEN: Final = 1 << 20
"""How many bytes go by, at most, before they are written down."""

_USUAL_OUTPUT: Final = 4096
"""Tokens that are reserved for the answer to a request that sets no bound."""

_MAX_OUTPUT: Final = 128 << 10
"""No model answers with more: a request cannot reserve a group's budget by asking for it."""

_MAX_CHOICES: Final = 128
"""No provider returns more."""


class Demand(NamedTuple):
    """What a request asks for, as far as budgets are concerned."""

    models: tuple[str, ...] = ()
    """The models that it names, in its path and its body."""

    options: tuple[str, ...] = ()
    """What changes their price."""

    body: int = 0
    """Bytes."""

    max_output: int | None = None
    """Tokens of each choice."""

    choices: int = 1
    generates: bool = False
    """Whether it has an answer of tokens."""

    def usage(self) -> TokenUsage:
        """Return the tokens that it may use."""
        each = min(self.max_output or _USUAL_OUTPUT, _MAX_OUTPUT)
        output = each * min(self.choices, _MAX_CHOICES) if self.generates else 0
        return TokenUsage(input=tokens_of(self.body), output=output)


class UnderWay:
    """The requests under way, and what is reserved for them."""

    def __init__(self) -> None:
        self._requests = Counter[Key]()
        self._reserved = dict[Key, Amounts]()

    def requests(self, key: Key) -> int:
        """Return how many there are."""
        return self._requests[key]

    def reserved(self, key: Key) -> Amounts:
        """Return what they may still use."""
        return self._reserved.get(key, Amounts())

    def begin(self, key: Key) -> None:
        """Count a request."""
        self._requests[key] += 1

    def reserve(self, key: Key, more: Amounts) -> None:
        """Reserve more, or less if amounts are negative."""
        self._reserved[key] = self.reserved(key).plus(more)

    def end(self, key: Key) -> None:
        """Count a request no longer."""
        self._requests[key] -= 1
        if not self._requests[key]:
            del self._requests[key]
            self._reserved.pop(key, None)


class Pricing:
    """The price of one request: the highest of what its path, its body and its answer name."""

    def __init__(self, prices: Prices, demand: Demand, price: Price | None) -> None:
        self._prices = prices
        self.demand = demand
        self._price = price

    def dollars(self, usage: TokenUsage) -> float:
        """Return what tokens cost; nothing if no price is known."""
        return self._price.of(usage) if self._price else 0.0

    @property
    def is_known(self) -> bool:
        """Whether there is a price."""
        return self._price is not None

    def answered_by(self, model: str) -> None:
        """Raise the price to that of the model that has answered."""
        named = self.demand.models
        if self._price is None or model in named:
            return
        try:
            price: Price | None = self._prices.of([model], self.demand.options)
        except UnknownPriceError:
            # Providers answer with the version of the model that was named; any other may be the dearest.
            price = None if any(model.startswith(f"{each}-") for each in named) else self._prices.highest()
        except UserFileError:
            price = None
        if price is not None:
            self._price = self._price.or_dearer(price)


class Spending:
    """What one request uses, counted as it becomes known."""

    def __init__(self, ledger: SpendingLedger, under_way: UnderWay, keys: list[Key], pricing: Pricing) -> None:
        self._ledger, self._under_way, self._keys, self._pricing = ledger, under_way, keys, pricing
        self._usage = TokenUsage()
        self._dollars = 0.0
        self._bytes = 0
        self._add(Amounts(requests=1))
        for key in keys:
            under_way.begin(key)
        self._reserved = Amounts()
        self._reserve(self.expected)

    @property
    def expected(self) -> TokenUsage:
        """The tokens that the request may use, by what it says itself."""
        return self._pricing.demand.usage()

    @property
    def dollars(self) -> float | None:
        """What it has cost so far, if there is a price."""
        return self._dollars if self._pricing.is_known else None

    def passed(self, count: int) -> None:
        """Count bytes."""
        self._bytes += count
        if self._bytes >= _BYTES_BETWEEN:
            self._write_bytes()

    def answered_by(self, model: str) -> None:
        """Note which model has answered, by what the provider says."""
        self._pricing.answered_by(model)
        self._count(self._usage)

    def tell(self, usage: TokenUsage) -> None:
        """Count tokens, of which the total is known."""
        if usage != self._usage:
            self._count(usage)

    def close(self) -> None:
        """End the request."""
        self._reserve(TokenUsage())
        for key in self._keys:
            self._under_way.end(key)
        self._write_bytes()

    def _count(self, usage: TokenUsage) -> None:
        before, dollars = self._usage, self._pricing.dollars(usage)
        more = Amounts(
            input_tokens=usage.input - before.input,
            output_tokens=usage.output - before.output,
            dollars=dollars - self._dollars,
            bytes=self._bytes,
        )
        self._usage, self._dollars, self._bytes = usage, dollars, 0
        expected = self.expected
        self._reserve(TokenUsage(max(expected.input - usage.input, 0), max(expected.output - usage.output, 0)))
        self._add(more)

    def _reserve(self, usage: TokenUsage) -> None:
        """Reserve what the request may still use."""
        dollars = self._pricing.dollars(usage)
        before, self._reserved = self._reserved, Amounts(0, usage.input, usage.output, dollars)
        for key in self._keys:
            self._under_way.reserve(key, self._reserved.minus(before))

    def _write_bytes(self) -> None:
        self._add(Amounts(bytes=self._bytes))
        self._bytes = 0

    def _add(self, more: Amounts) -> None:
        try:
            for key in self._keys:
                self._ledger.add(key, more)
        except OSError as error:
            raise RefusedRequest(503, "ledger", f"what is used cannot be written down here: {error.strerror}") from None
