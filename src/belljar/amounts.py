"""Amounts of memory as people write them, on the command line and in tasks: `512m`, `8g`."""

import re
from typing import Final

# Digits are bounded: a float of more than three hundred is infinite, and no integer.
_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MIN_BYTES: Final = 4 << 20
_MAX_BYTES: Final = 1 << 50


class AmountError(ValueError):
    """A text that is no amount; the message says why and what to write."""


def parse_memory(text: str) -> int:
    """Return an amount of memory in bytes. Raises AmountError."""
    match = _MEMORY.fullmatch(text.strip())
    if match is None:
        raise AmountError(f'"{text}" is no amount of memory; write a number with a unit, such as 512m or 8g')
    amount = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])
    if amount < _MIN_BYTES:
        raise AmountError(f'"{text}" is too little to run anything; did you forget the unit, as in 512m?')
    if amount > _MAX_BYTES:
        raise AmountError(f'"{text}" is more than any machine has; write an amount such as 512m or 8g')
    return amount


def written_memory(amount: int) -> str:
    """Return an amount as `parse_memory` reads it, in the largest unit that divides it."""
    for unit, power in (("t", 4), ("g", 3), ("m", 2), ("k", 1)):
        if amount % 1024**power == 0:
            return f"{amount // 1024**power}{unit}"
    return str(amount)
