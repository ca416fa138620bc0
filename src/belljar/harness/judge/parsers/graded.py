"""What parsers find in the output of a grader, in numbers that can be compared and texts that can be shown."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from belljar.harness.judge.report import TestDetail

MAX_DETAILS: Final = 10_000
MAX_METRICS: Final = 200
MAX_NAME: Final = 500
MAX_MESSAGE: Final = 2000
MAX_SUMMARY: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """The part of a report that comes from the grader."""

    total_tests: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    pass_rate: float = 0.0
    score: float | None = None
    valid: bool = True
    summary: str = ""
    details: tuple[TestDetail, ...] = ()
    metrics: Mapping[str, float | str] = field(default_factory=dict)


def invalid(summary: str, details: tuple[TestDetail, ...] = ()) -> Grades:
    """Return the grades of a submission whose output says nothing that can be trusted."""
    return Grades(valid=False, summary=summary[:MAX_SUMMARY], details=details)


def finite(value: Any) -> float | None:
    """Return a number as JSON can have it; None for anything else: no number, an infinity, NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
