"""What a model's tokens cost, by the user's own file. Nothing is guessed: without a price there are no dollars."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from belljar.broker.secretsfile import PRICES, UserFileError, place_of, read_mapping
from belljar.broker.spending.usage import TokenUsage

_COMPONENTS: Final = frozenset({"input", "output", "cache_read", "cache_write"})
_OPTIONS: Final = "options"
_MILLION: Final = 1_000_000
Priced = TypeVar("Priced")


class Price(NamedTuple):
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float

    def of(self, usage: TokenUsage) -> float:
        """Return what a use costs."""
        fresh = max(usage.input - usage.cache_read - usage.cache_write, 0)
        return (
            fresh * self.input
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
            + usage.output * self.output
        ) / _MILLION

    def or_dearer(self, other: "Price") -> "Price":
        """Return the higher price of each kind of token."""
        return Price(*map(max, self, other))


class UnknownPriceError(Exception):
    """The user's file has no price for a model, or for an option of a request. The text names it."""


class ModelPrice(NamedTuple):
    """What a model costs."""

    usual: Price
    options: Mapping[str, Price]
    """By ``name=value``, in which a star at the end stands for any rest."""

    def with_options(self, model: str, options: Iterable[str]) -> Price:
        """Return the price of a request. Raises UnknownPriceError for an option that has none."""
        price = self.usual
        for option in options:
            found = _look_up(self.options, option)
            if found is None:
                raise UnknownPriceError(f"{model} with {option}")
            price = price.or_dearer(found)
        return price


class Prices:
    """The prices of models, read when they are first asked for, and again when the file has changed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._read_at: tuple[int, int] | None = None
        self._prices = dict[str, ModelPrice]()

    @property
    def place(self) -> str:
        """Where the file is, or would be."""
        return str(place_of(PRICES, self._environ))

    def is_empty(self) -> bool:
        """Return whether no model has a price. Raises UserFileError."""
        self._refresh()
        return not self._prices

    def of(self, models: Iterable[str], options: Iterable[str]) -> Price:
        """Return the price of a request: the highest, if it names several models. Raises UnknownPriceError and
        UserFileError.
        """
        self._refresh()
        named, price = tuple(options), None
        for model in models:
            found = _look_up(self._prices, model)
            if found is None:
                raise UnknownPriceError(model)
            each = found.with_options(model, named)
            price = each if price is None else price.or_dearer(each)
        if price is None:
            raise UnknownPriceError("a request that names no model")
        return price

    def highest(self) -> Price | None:
        """Return the highest price of each kind of token among all models and options. Raises UserFileError."""
        self._refresh()
        highest: Price | None = None
        for each in self._prices.values():
            for price in (each.usual, *each.options.values()):
                highest = price if highest is None else highest.or_dearer(price)
        return highest

    def _refresh(self) -> None:
        try:
            status = os.stat(self.place)  # noqa: PTH116 - it may change while we run, and is looked at often
            now = (status.st_mtime_ns, status.st_size)
        except OSError:
            now = (0, 0)
        if now != self._read_at:
            entries = read_mapping(PRICES, self._environ)
            self._prices = {str(model): self._model_price(str(model), entry) for model, entry in entries.items()}
            self._read_at = now

    def _model_price(self, model: str, entry: Any) -> ModelPrice:
        if not isinstance(entry, dict) or not {"input", "output"} <= set(entry) <= _COMPONENTS | {_OPTIONS}:
            raise UserFileError(
                f"{self.place}: {model} needs input and output, and may have cache_read, cache_write and options"
            )
        numbers = self._numbers(model, {name: value for name, value in entry.items() if name != _OPTIONS})
        usual = Price(
            numbers["input"],
            numbers["output"],
            numbers.get("cache_read", numbers["input"]),
            numbers.get("cache_write", numbers["input"]),
        )
        options = entry.get(_OPTIONS, {})
        if not isinstance(options, dict):
            raise UserFileError(f"{self.place}: the options of {model} are to be NAME=VALUE: {{input: 3, output: 15}}")
        return ModelPrice(
            usual, {str(name): self._option_price(f"{model} with {name}", usual, of) for name, of in options.items()}
        )

    def _option_price(self, what: str, usual: Price, entry: Any) -> Price:
        """Return the price with an option, which names what differs from the usual price."""
        entry = {} if entry is None else entry
        if not isinstance(entry, dict) or not set(entry) <= _COMPONENTS:
            raise UserFileError(f"{self.place}: {what} may have input, output, cache_read and cache_write")
        return usual._replace(**self._numbers(what, entry))

    def _numbers(self, what: str, entry: Mapping[str, Any]) -> dict[str, float]:
        try:
            each = {name: float(value) for name, value in entry.items()}
        except (TypeError, ValueError):
            raise UserFileError(f"{self.place}: the prices of {what} are to be numbers") from None
        if not all(0 <= value < _MILLION for value in each.values()):
            raise UserFileError(f"{self.place}: a price of {what} is negative, or no number")
        return each


def _look_up(table: Mapping[str, Priced], name: str) -> Priced | None:
    """Return the entry of a name: its own, or that of the longest pattern."""
    if name in table:
        return table[name]
    patterns = [each for each in table if each.endswith("*") and name.startswith(each[:-1])]
    return table[max(patterns, key=len)] if patterns else None
