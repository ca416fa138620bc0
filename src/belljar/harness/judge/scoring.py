"""Choose the best submission of a run."""

from collections.abc import Iterable

from belljar.harness.judge.report import EvalReport
from belljar.harness.tasks.model import Direction, JudgeStage, Selection


def best(reports: Iterable[EvalReport], stage: JudgeStage) -> EvalReport | None:
    """Return the best of several reports, the earliest of equals; None if none of them counts.

    An invalid submission never counts, whatever the selection. `pass_rate_first` compares scores only of those that
    pass everything, and one that passes nothing does not count; the others need a score.
    """
    found: EvalReport | None = None
    for report in reports:
        if _counts(report, stage.selection) and (found is None or _is_better(report, found, stage)):
            found = report
    return found


def is_passed(report: EvalReport) -> bool:
    """Return whether a submission solves its task: it is valid, and passes everything.

    One that has no tests passes if its score is worth 100 of 100.
    """
    if not report.valid or report.timed_out:
        return False
    return report.pass_rate >= 1.0 or (report.total_tests == 0 and (report.score_0_100 or 0.0) >= 100.0)


def _counts(report: EvalReport, selection: Selection) -> bool:
    if not report.valid or report.timed_out:
        return False
    return report.pass_rate > 0 if selection is Selection.PASS_RATE_FIRST else report.score is not None


def _is_better(report: EvalReport, than: EvalReport, stage: JudgeStage) -> bool:
    if stage.selection is Selection.PASS_RATE_FIRST:
        if report.pass_rate != than.pass_rate:
            return report.pass_rate > than.pass_rate
        if report.pass_rate < 1.0:
            return False
    if report.score is None or than.score is None:
        return than.score is None and report.score is not None
    return report.score > than.score if stage.direction is Direction.MAXIMIZE else report.score < than.score
