"""Amounts as people write them."""

import re
from typing import Any, Final

import click

_BYTES: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_LEAST_BYTES: Final = 4 << 20


class Bytes(click.ParamType[int]):
    """``512m``, ``8g``."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _BYTES.fullmatch(str(value).strip())
        if match is None:
            self.fail(f'"{value}" is no amount of memory; write a number with a unit, such as 512m or 8g', param, ctx)
        amount = int(float(match[1]) * 1024 ** _POWERS[match[2].lower()])
        if amount < _LEAST_BYTES:
            self.fail(f'"{value}" is too little to run anything; did you forget the unit, as in 512m?', param, ctx)
        return amount
