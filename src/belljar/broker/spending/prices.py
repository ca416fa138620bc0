"""What a model's tokens cost, by the user's own file. Nothing is guessed: without a price there are no dollars."""

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from belljar.broker.secretsfile import PRICES, UserFileError, place_of, read_mapping
from belljar.broker.spending.usage import TokenUsage

_KEYS: Final = frozenset({"input", "output", "cache_read", "cache_write"})
_MILLION: Final = 1_000_000


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


class Prices:
    """The prices of models, read when they are first asked for, and again when the file has changed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._read_at: tuple[int, int] | None = None
        self._prices = dict[str, Price]()

    @property
    def place(self) -> str:
        """Where the file is, or would be."""
        return str(place_of(PRICES, self._environ))

    def is_empty(self) -> bool:
        """Tell whether no model has a price. Raises UserFileError."""
        self._refresh()
        return not self._prices

    def of(self, model: str) -> Price | None:
        """Return the price of a model: its own, or that of the longest pattern. Raises UserFileError."""
        self._refresh()
        if model in self._prices:
            return self._prices[model]
        patterns = [each for each in self._prices if each.endswith("*") and model.startswith(each[:-1])]
        return self._prices[max(patterns, key=len)] if patterns else None

    def _refresh(self) -> None:
        try:
            status = os.stat(self.place)  # noqa: PTH116 - it may change while we run, and is looked at often
            now = (status.st_mtime_ns, status.st_size)
        except OSError:
            now = (0, 0)
        if now != self._read_at:
            entries = read_mapping(PRICES, self._environ)
            self._prices = {str(model): self._price(str(model), entry) for model, entry in entries.items()}
            self._read_at = now

    def _price(self, model: str, entry: Any) -> Price:
        if not isinstance(entry, dict) or not {"input", "output"} <= set(entry) <= _KEYS:
            raise UserFileError(
                f"{self.place}: {model} needs input and output, and may have cache_read and cache_write"
            )
        try:
            each = {name: float(value) for name, value in entry.items()}
        except (TypeError, ValueError):
            raise UserFileError(f"{self.place}: the prices of {model} are to be numbers") from None
        if not all(0 <= value < _MILLION for value in each.values()):
            raise UserFileError(f"{self.place}: a price of {model} is negative, or no number")
        return Price(
            each["input"],
            each["output"],
            each.get("cache_read", each["input"]),
            each.get("cache_write", each["input"]),
        )
