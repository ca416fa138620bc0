"""Amounts as people write them."""

import re
from typing import Any, Final

import click

from belljar.amounts import AmountError, parse_memory

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"
_SECONDS: Final = r"(\d+(?:\.\d+)?)\s*([smhd]?)"
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class Bytes(click.ParamType[int]):
    """``512m``, ``8g``."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_memory(str(value))
        except AmountError as error:
            self.fail(str(error), param, ctx)


class Seconds(click.ParamType[float]):
    """``90``, ``10m``, ``2h``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(_SECONDS, str(value).strip(), re.IGNORECASE)
        seconds = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
        if not seconds:
            self.fail(
                f'"{value}" is no length of time; write seconds, or a number with a unit: 10m, 2h, 1d', param, ctx
            )
        return seconds


class Count(click.ParamType[int]):
    """``1``, ``500``."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if re.fullmatch(r"\d{1,15}", str(value), re.ASCII) is None or not int(value):
            self.fail(f'"{value}" is no whole number above 0; write one such as 500', param, ctx)
        return int(value)


class Number(click.ParamType[float]):
    """``4``, ``1.5``."""

    name = "number"

    def __init__(self, least: float) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if re.fullmatch(_NUMBER, str(value), re.ASCII) is None or float(value) < self._least:
            self.fail(f'"{value}" is no number from {self._least:g} up; write one such as 1.5', param, ctx)
        return float(value)


def written_seconds(seconds: float) -> str:
    """Return a length of time in its largest unit: ``42s``, ``7m``, ``3h``, ``12d``."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return f"{seconds // size:.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"


def written_bytes(count: int) -> str:
    """Return an amount of bytes: ``17 B``, ``4.2 MB``."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
