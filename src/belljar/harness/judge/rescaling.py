"""Convert raw scores to figures from 0 to 100, by the formulas that SForge's tasks name in `rescale.kind`.

With x as the raw score:

| kind | figure |
|---|---|
| `linear` | 100 (x - lower) / (upper - lower) |
| `min_linear` | 100 (baseline - x) / (baseline - expert) |
| `min_linear_positive` | the same for x > 0, else 0 |
| `compression_ratio_cropped_guarded` | the same for x >= 0.05, else 0: no honest ratio is below |
| `min_inverse_anchor` | anchor_score anchor_raw / x, for x > 0 |
| `log_anchor` | anchor_score log x / log anchor_raw, for x > 1 |
| `log_max`, `log_min` | 100 log(x / baseline) / log(expert / baseline), for x > 0 |
| `log1p_max` | 100 log(1 + x / baseline) / log(1 + upper / baseline), for x > 0 |
| `piecewise_max`, `piecewise_min` | straight lines through baseline (0), rank30 (20), rank1 (80), super_anchor (100) |
| `piecewise_log_min` | the same over log x |
| any other | x |

All of them are cut at 0 and 100. Where a formula has no value, as with a missing parameter or a division by zero, there
is no figure (None): it must not look like a bad score.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from belljar.harness.tasks.model import Rescale

_LEAST_RATIO: Final = 0.05
_POINTS: Final = (("baseline", 0.0), ("rank30", 20.0), ("rank1", 80.0), ("super_anchor", 100.0))
Parameters = Mapping[str, float]


def rescale(rule: Rescale | None, raw: float | None) -> float | None:
    """Return the figure of a raw score; None if the task has no rule, or the score no figure."""
    if rule is None or raw is None or not math.isfinite(raw):
        return None
    try:
        figure = _FORMULAS.get(rule.kind, _unchanged)(raw, rule.parameters)
    except (ArithmeticError, KeyError, ValueError):
        return None
    return min(max(figure, 0.0), 100.0) if not math.isnan(figure) else None


def _unchanged(raw: float, _: Parameters) -> float:
    return raw


def _linear(raw: float, given: Parameters) -> float:
    return 100 * (raw - given["lower"]) / (given["upper"] - given["lower"])


def _min_linear(raw: float, given: Parameters) -> float:
    return 100 * (given["baseline"] - raw) / (given["baseline"] - given["expert"])


def _min_linear_positive(raw: float, given: Parameters) -> float:
    return _min_linear(raw, given) if raw > 0 else 0.0


def _compression_ratio(raw: float, given: Parameters) -> float:
    return _min_linear(raw, given) if raw >= _LEAST_RATIO else 0.0


def _min_inverse_anchor(raw: float, given: Parameters) -> float:
    return given["anchor_score"] * given["anchor_raw"] / raw if raw > 0 else 0.0


def _log_anchor(raw: float, given: Parameters) -> float:
    return given["anchor_score"] * math.log(raw) / math.log(given["anchor_raw"]) if raw > 1 else 0.0


def _log(raw: float, given: Parameters) -> float:
    return 100 * math.log(raw / given["baseline"]) / math.log(given["expert"] / given["baseline"]) if raw > 0 else 0.0


def _log1p_max(raw: float, given: Parameters) -> float:
    whole = math.log1p(given["upper"] / given["baseline"])
    return 100 * math.log1p(raw / given["baseline"]) / whole if raw > 0 else 0.0


def _piecewise_max(raw: float, given: Parameters) -> float:
    return _interpolate(raw, [given[name] for name, _ in _POINTS])


def _piecewise_min(raw: float, given: Parameters) -> float:
    return _interpolate(-raw, [-given[name] for name, _ in _POINTS]) if raw > 0 else 0.0


def _piecewise_log_min(raw: float, given: Parameters) -> float:
    return _interpolate(-math.log(raw), [-math.log(given[name]) for name, _ in _POINTS]) if raw > 0 else 0.0


def _interpolate(x: float, anchors: Sequence[float]) -> float:
    if any(right < left for left, right in pairwise(anchors)):
        raise ValueError("the anchors are not in order")
    if x <= anchors[0]:
        return 0.0
    for number in range(1, len(anchors)):
        left, right = anchors[number - 1], anchors[number]
        if x <= right:
            low, high = _POINTS[number - 1][1], _POINTS[number][1]
            return low + (high - low) * (x - left) / (right - left)
    return 100.0


_FORMULAS: Final[Mapping[str, Callable[[float, Parameters], float]]] = {
    "linear": _linear,
    "min_linear": _min_linear,
    "min_linear_positive": _min_linear_positive,
    "compression_ratio_cropped_guarded": _compression_ratio,
    "min_inverse_anchor": _min_inverse_anchor,
    "log_anchor": _log_anchor,
    "log_max": _log,
    "log_min": _log,
    "log1p_max": _log1p_max,
    "piecewise_max": _piecewise_max,
    "piecewise_min": _piecewise_min,
    "piecewise_log_min": _piecewise_log_min,
}
