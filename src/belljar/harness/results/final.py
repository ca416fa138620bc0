"""The result of one trial as it is written: `final_result.json` and `run_history.json`.

Fields that SForge has are SForge's; an unscored trial has null where SForge writes 0.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from belljar.harness.judge.history import HistoryEntry
from belljar.harness.judge.report import SubmissionKind
from belljar.harness.results.layout import ARCHIVE, HISTORY, RESULT, write_json
from belljar.harness.trials.outcome import TrialOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """How one trial ended."""

    task: str
    agent: str
    run_id: str
    model: str | None
    outcome: TrialOutcome
    detail: str
    """Why it ended so, for people."""

    score: float | None
    """From 0 to 100; None for a trial that could not be scored."""

    best_pass_rate: float | None
    best_round: str | None
    best_score: float | None
    total_rounds: int
    agent_submissions: int
    auto_submissions: int
    timed_out: bool
    agent_exit_code: int | None
    runtime_seconds: float
    archive_size_bytes: int
    resume_count: int
    attempts: tuple[str, ...]
    """Why earlier attempts to make the work sandbox failed."""

    internet: bool
    backend: str
    task_digest: str
    policy_digest: str | None
    destinations_reached: int
    destinations_denied: int
    denials: int
    """How often something was denied."""

    judge_denials: int
    """How often submitted code tried to reach something while it was graded."""


def write_result(directory: Path, result: TrialResult, entries: Sequence[HistoryEntry]) -> None:
    """Write the files of a trial that has ended. The result is the last: with it, the trial is complete."""
    best = {"best_pass_rate": result.best_pass_rate, "best_round": result.best_round, "best_score": result.best_score}
    history = {
        "run_id": result.run_id,
        **best,
        "agent_submissions": result.agent_submissions,
        "auto_submissions": result.auto_submissions,
        "entries": [entry.to_data() for entry in entries],
    }
    write_json(directory / HISTORY, history)
    write_json(directory / RESULT, asdict(result))


def archive_size(directory: Path) -> int:
    """Return how large the last state of the work is; 0 if it was not taken."""
    archive = directory / ARCHIVE
    return archive.stat().st_size if archive.exists() else 0


def count_kind(entries: Sequence[HistoryEntry], kind: SubmissionKind) -> int:
    """Return how many submissions came from someone."""
    return sum(entry.kind is kind for entry in entries)


def result_from_data(data: dict[str, Any]) -> TrialResult:
    """Return the result that was written."""
    return TrialResult(**{**data, "outcome": TrialOutcome(data["outcome"]), "attempts": tuple(data["attempts"])})
