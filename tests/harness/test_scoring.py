"""The best of a run, and figures from 0 to 100."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.harness.judge.report import EvalReport
from belljar.harness.judge.rescaling import rescale
from belljar.harness.judge.scoring import best, is_passed
from belljar.harness.tasks.model import Direction, Rescale, Selection
from tests.harness.stages import stage

RATE, SCORE, VALID = Selection.PASS_RATE_FIRST, Selection.SCORE_FIRST, Selection.VALID_THEN_SCORE
UP, DOWN = Direction.MAXIMIZE, Direction.MINIMIZE


def report(name: str, rate: float, score: float | None = None, **fields: bool) -> EvalReport:
    return EvalReport(task_id="t", submission_id=name, pass_rate=rate, score=score, total_tests=2, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("selection", "direction", "reports", "expected"),
    [
        (RATE, UP, [report("a", 0.5, 9), report("b", 0.6, 1)], "b"),
        (RATE, UP, [report("a", 0.5, 1), report("b", 0.5, 9)], "a"),
        (RATE, UP, [report("a", 1.0, 1), report("b", 1.0, 9)], "b"),
        (RATE, DOWN, [report("a", 1.0, 1), report("b", 1.0, 9)], "a"),
        (RATE, UP, [report("a", 1.0), report("b", 1.0, 9)], "b"),
        (RATE, UP, [report("a", 0.0, 9)], None),
        (RATE, UP, [report("a", 1.0, 9, valid=False), report("b", 0.1)], "b"),
        (SCORE, UP, [report("a", 1.0, 1), report("b", 0.0, 9)], "b"),
        (SCORE, DOWN, [report("a", 1.0, 1), report("b", 0.0, 9)], "a"),
        (SCORE, UP, [report("a", 1.0)], None),
        (VALID, UP, [report("a", 1.0, 9, valid=False), report("b", 0.0, 1)], "b"),
        (VALID, UP, [report("a", 1.0, 9, timed_out=True)], None),
        (VALID, DOWN, [], None),
    ],
)
def test_the_best_of_a_run_is_chosen_as_the_task_says(selection, direction, reports, expected):
    found = best(reports, stage(selection=selection, direction=direction))
    assert (found.submission_id if found else None) == expected


def test_only_a_valid_submission_that_passes_everything_has_passed():
    assert is_passed(report("a", 1.0))
    assert not is_passed(report("a", 0.99))
    assert not is_passed(report("a", 1.0, valid=False))
    assert not is_passed(report("a", 1.0, timed_out=True))


PIECES = {"baseline": 10, "rank30": 20, "rank1": 50, "super_anchor": 100}
FALLING = {"baseline": 100, "rank30": 50, "rank1": 20, "super_anchor": 10}


@pytest.mark.parametrize(
    ("kind", "parameters", "raw", "expected"),
    [
        ("linear", {"lower": 10, "upper": 20}, 15, 50),
        ("linear", {"lower": 10, "upper": 20}, 25, 100),
        ("min_linear", {"baseline": 20, "expert": 10}, 12.5, 75),
        ("min_linear_positive", {"baseline": 20, "expert": 10}, 0, 0),
        ("compression_ratio_cropped_guarded", {"baseline": 1, "expert": 0.2}, 0.01, 0),
        ("compression_ratio_cropped_guarded", {"baseline": 1, "expert": 0.2}, 0.6, 50),
        ("min_inverse_anchor", {"anchor_raw": 10, "anchor_score": 80}, 20, 40),
        ("log_anchor", {"anchor_raw": 100, "anchor_score": 80}, 10, 40),
        ("log_max", {"baseline": 1, "expert": 100}, 10, 50),
        ("log_min", {"baseline": 100, "expert": 1}, 10, 50),
        ("log1p_max", {"baseline": 1, "upper": 3}, 1, 50),
        *(("piecewise_max", PIECES, raw, to) for raw, to in ((5, 0), (15, 10), (35, 50), (75, 90), (200, 100))),
        *(("piecewise_min", FALLING, raw, to) for raw, to in ((200, 0), (75, 10), (35, 50), (15, 90), (5, 100))),
        ("piecewise_min", FALLING, 0, 0),
        ("piecewise_log_min", FALLING, math.sqrt(50 * 20), 50),
        ("unheard_of", {}, 120, 100),
    ],
)
def test_scores_are_rescaled(kind, parameters, raw, expected):
    assert rescale(Rescale(kind=kind, parameters=parameters), raw) == pytest.approx(expected)


def test_there_is_no_figure_where_there_is_no_rule_or_no_score_or_no_sense():
    linear = Rescale(kind="linear", parameters={"lower": 1, "upper": 1})
    assert rescale(linear, 1) is None
    assert rescale(Rescale(kind="linear", parameters={}), 1) is None
    assert rescale(None, 1) is None
    assert rescale(linear, None) is None
    assert rescale(linear, math.nan) is None


KINDS = ["linear", "min_linear", "min_linear_positive", "compression_ratio_cropped_guarded", "min_inverse_anchor"]
KINDS += ["log_anchor", "log_max", "log_min", "log1p_max", "piecewise_max", "piecewise_min", "piecewise_log_min", "x"]
NAMES = ["lower", "upper", "baseline", "expert", "rank30", "rank1", "super_anchor", "anchor_raw", "anchor_score"]


@given(st.sampled_from(KINDS), st.fixed_dictionaries({name: st.floats() for name in NAMES}), st.floats())
def test_no_parameters_make_a_figure_that_is_none_of_0_to_100(kind, parameters, raw):
    figure = rescale(Rescale(kind=kind, parameters=parameters), raw)
    assert figure is None or 0 <= figure <= 100
