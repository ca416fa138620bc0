"""How a trial ended, from what happened in the work sandbox and what the judge says of its submissions."""

from collections.abc import Sequence
from typing import NamedTuple

from belljar.harness.judge.report import EvalReport, SubmissionKind, SubmissionStatus
from belljar.harness.judge.scoring import best_of, is_pass
from belljar.harness.judge.sessions import SubmissionEntry
from belljar.harness.tasks.model import EvalTask
from belljar.harness.trials.outcome import Outcome
from belljar.harness.trials.trial import WorkRecord


class TrialVerdict(NamedTuple):
    """The result of a trial."""

    outcome: Outcome
    detail: str
    best: SubmissionEntry | None
    """The best submission, also where the trial has no score."""

    score: float | None
    """From 0 to 100; None if nothing was graded that a score could be made of."""


def judge_trial(task: EvalTask, record: WorkRecord, entries: Sequence[SubmissionEntry]) -> TrialVerdict:
    """Return the outcome and the score of a trial."""
    graded = [entry for entry in entries if entry.report is not None and not entry.report.timed_out]
    best = best_of(graded, task)
    outcome, detail = _outcome(task, record, entries, graded, best)
    score = score_of(best) if outcome.is_scored else None
    return TrialVerdict(outcome, detail, best, score)


def score_of(best: SubmissionEntry | None) -> float:
    """Return a score from 0 to 100: the rescaled one, or else the pass rate. Nothing that counts scores 0."""
    report = best.report if best is not None else None
    if report is None:
        return 0.0
    return report.score_0_100 if report.score_0_100 is not None else round(100 * report.pass_rate, 4)


def _outcome(
    task: EvalTask,
    record: WorkRecord,
    entries: Sequence[SubmissionEntry],
    graded: Sequence[SubmissionEntry],
    best: SubmissionEntry | None,
) -> tuple[Outcome, str]:
    if record.outcome is not None:
        return record.outcome, record.detail
    submitted = any(entry.kind is SubmissionKind.AGENT for entry in entries)
    if record.exit_code and not record.timed_out and not submitted:
        return Outcome.AGENT_ERROR, _agent_failure(record)
    if not graded:
        return _ungraded(entries, record)
    if record.timed_out:
        return Outcome.TIMEOUT_GRADED, f"the agent's time was over after {record.seconds:.0f} s"
    passed = best is not None and best.report is not None and is_pass(best.report, task)
    errors = sum(entry.status is SubmissionStatus.ERROR for entry in entries)
    detail = f"{errors} of {len(entries)} submissions could not be graded" if errors else record.detail
    return (Outcome.PASSED if passed else Outcome.FAILED), detail


def _ungraded(entries: Sequence[SubmissionEntry], record: WorkRecord) -> tuple[Outcome, str]:
    reports = [entry.report for entry in entries if entry.report is not None]
    if any(report.timed_out for report in reports):
        return Outcome.GRADER_TIMEOUT, "grading took longer than judge.eval_timeout each time"
    errors = [entry.error for entry in entries if entry.error]
    return Outcome.GRADER_ERROR, errors[-1] if errors else record.detail or "nothing was submitted"


def _agent_failure(record: WorkRecord) -> str:
    if record.out_of_memory:
        return f"the agent's command exited with {record.exit_code}, and memory ran out; raise --work-mem-limit"
    return f"the agent's command exited with {record.exit_code} before it had submitted anything"
