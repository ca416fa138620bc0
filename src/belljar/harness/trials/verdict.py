"""How a trial ended, from what happened in the work sandbox and what the judge says of its submissions."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from belljar.harness.judge.history import HistoryEntry
from belljar.harness.judge.report import EvalReport, SubmissionKind, SubmissionStatus
from belljar.harness.judge.scoring import best, is_passed
from belljar.harness.tasks.model import EvalTask, Selection
from belljar.harness.trials.outcome import TrialOutcome
from belljar.harness.trials.work import WorkRecord

_FULL_MARKS: Final = 100.0


class TrialVerdict(NamedTuple):
    """The result of a trial."""

    outcome: TrialOutcome
    detail: str
    best: EvalReport | None
    """The best submission, also where the trial has no score."""

    score: float | None
    """From 0 to 100; None if there is nothing to make a score of."""


def judge_trial(task: EvalTask, record: WorkRecord, entries: Sequence[HistoryEntry]) -> TrialVerdict:
    """Return the outcome and the score of a trial."""
    reports = [entry.report for entry in entries if entry.report is not None]
    found = best(reports, task.judge)
    outcome, detail = _outcome(task, record, entries, reports, found)
    return TrialVerdict(outcome, detail, found, score_of(found) if outcome.is_scored else None)


def score_of(report: EvalReport | None) -> float:
    """Return a score from 0 to 100: the rescaled one, or else the pass rate; 0 if no submission counts."""
    if report is None:
        return 0.0
    return report.score_0_100 if report.score_0_100 is not None else round(100 * report.pass_rate, 4)


def has_full_marks(report: EvalReport, task: EvalTask) -> bool:
    """Return whether a submission passes every test and, where a score is what counts, has the highest."""
    if task.judge.selection is Selection.PASS_RATE_FIRST:
        return is_passed(report)
    return is_passed(report) and score_of(report) >= _FULL_MARKS


def _outcome(
    task: EvalTask,
    record: WorkRecord,
    entries: Sequence[HistoryEntry],
    reports: Sequence[EvalReport],
    found: EvalReport | None,
) -> tuple[TrialOutcome, str]:
    if record.outcome is not None:
        return record.outcome, record.detail
    submitted = any(entry.kind is SubmissionKind.AGENT for entry in entries)
    if record.exit_code and not record.timed_out and not submitted:
        return TrialOutcome.AGENT_ERROR, _agent_failure(record)
    if not reports and record.unusable:
        return TrialOutcome.FAILED, record.unusable
    if all(report.timed_out for report in reports):
        return _ungraded(record, entries, reports)
    if record.timed_out:
        return TrialOutcome.TIMEOUT_GRADED, f"the agent's time was over after {record.seconds:.0f} s"
    errors = sum(entry.status is SubmissionStatus.ERROR for entry in entries)
    if errors:
        detail = f"{errors} of {len(entries)} submissions could not be graded"
    elif not any(report.valid for report in reports):
        detail = f"no submission is valid; {reports[-1].submission_id}: {reports[-1].summary}"
    else:
        detail = record.unusable or record.detail
    return (TrialOutcome.PASSED if found is not None and has_full_marks(found, task) else TrialOutcome.FAILED), detail


def _ungraded(
    record: WorkRecord, entries: Sequence[HistoryEntry], reports: Sequence[EvalReport]
) -> tuple[TrialOutcome, str]:
    if reports:
        return TrialOutcome.GRADER_TIMEOUT, "every evaluation took longer than judge.eval_timeout"
    errors = [entry.error for entry in entries if entry.error]
    return TrialOutcome.GRADER_ERROR, errors[-1] if errors else record.detail or "nothing could be submitted"


def _agent_failure(record: WorkRecord) -> str:
    if record.out_of_memory:
        return f"the agent's command exited with {record.exit_code}, and memory ran out; raise --work-mem-limit"
    return f"the agent's command exited with {record.exit_code} before it had submitted anything"
