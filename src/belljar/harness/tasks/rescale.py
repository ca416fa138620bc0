"""`judge.rescale`: the kinds of formulas there are, and the parameters that each of them needs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from belljar.harness.mappings import MappingKeys, StrictMapping, described, is_number, listed, quote
from belljar.harness.tasks.model import Rescale
from belljar.policy.language.entries import did_you_mean

_BETWEEN: Final = ("baseline", "expert")
_ANCHORED: Final = ("anchor_raw", "anchor_score")
_RANKED: Final = ("baseline", "rank30", "rank1", "super_anchor")

PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "linear": ("lower", "upper"),
        "min_linear": _BETWEEN,
        "min_linear_positive": _BETWEEN,
        "min_inverse_anchor": _ANCHORED,
        "log_anchor": _ANCHORED,
        "log_max": _BETWEEN,
        "log1p_max": ("baseline", "upper"),
        "log_min": _BETWEEN,
        "piecewise_max": _RANKED,
        "piecewise_min": _RANKED,
        "piecewise_log_min": _RANKED,
        "compression_ratio_cropped_guarded": _BETWEEN,
    }
)
"""Kinds, and the names of their parameters."""

_KINDS: Final = listed(PARAMETERS)
_KNOWN: Final = tuple(dict.fromkeys(name for names in PARAMETERS.values() for name in names))
# SForge ignores a parameter that the kind does not use, and published tasks have some.
_KEYS: Final = MappingKeys(("kind", *_KNOWN), required=("kind",), nullable=_KNOWN)


def read_rescale(judge: StrictMapping) -> Rescale | None:
    """Read the formula of a judge; None where there is none, or a problem with it."""
    if "rescale" not in judge:
        return None
    place = judge.at("rescale")
    keys = StrictMapping(judge.document, place, judge.value("rescale"), _KEYS)
    kind = keys.value("kind")
    if "kind" in keys and not (isinstance(kind, str) and kind in PARAMETERS):
        keys.fail("kind", f"is {quote(kind)}, which is not known{did_you_mean(kind, PARAMETERS)}; write {_KINDS}")
    parameters = {name: keys.value(name) for name in _KNOWN if name in keys}
    for name, value in parameters.items():
        if not is_number(value):
            keys.fail(name, f"is {described(value)}; write a number")
    if not isinstance(kind, str) or kind not in PARAMETERS:
        return None
    for name in PARAMETERS[kind]:
        if name not in parameters:
            judge.fail("rescale", f'has no "{name}", which {kind} needs; add it')
    _check_range(judge, kind, parameters)
    numbers = {name: float(value) for name, value in parameters.items() if isinstance(value, int | float)}
    return Rescale(kind=kind, parameters=numbers)


def _check_range(judge: StrictMapping, kind: str, parameters: Mapping[str, object]) -> None:
    """Note a range without an extent, which would divide by zero."""
    needed = PARAMETERS[kind]
    if needed in (_BETWEEN, ("lower", "upper")):
        first, second = (parameters.get(name) for name in needed)
        if first is not None and first == second:
            judge.fail("rescale", f'has the same "{needed[0]}" and "{needed[1]}"; write two different numbers')
