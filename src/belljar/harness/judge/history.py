"""The history of a run, in the form of SForge's `run_history.json`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from belljar.harness.judge.report import EvalReport, SubmissionKind, SubmissionStatus
from belljar.harness.judge.scoring import best
from belljar.harness.tasks.model import JudgeStage


class HistoryEntry(NamedTuple):
    """A submission as the history has it."""

    task_id: str
    id: str
    kind: SubmissionKind
    status: SubmissionStatus
    submitted_at: str
    report: EvalReport | None
    error: str | None

    def to_data(self) -> dict[str, Any]:
        """Return the entry."""
        data: dict[str, Any] = {
            "type": "submission",
            "kind": self.kind.value,
            "status": self.status.value,
            "submission_id": self.id,
            "task_id": self.task_id,
            "round": self.id,
            "submitted_at": self.submitted_at,
        }
        if self.report is not None:
            names = ("pass_rate", "score", "passed", "failed", "total_tests", "valid", "summary")
            data |= {name: getattr(self.report, name) for name in (*names, "runtime_seconds", "timed_out")}
        return data if self.error is None else data | {"error": self.error}


def history_data(run_id: str, entries: Sequence[HistoryEntry], stage: JudgeStage) -> dict[str, Any]:
    """Return the history of a run, with the best of the entries."""
    found = best((entry.report for entry in entries if entry.report is not None), stage)
    return {
        "run_id": run_id,
        "best_pass_rate": found.pass_rate if found else 0.0,
        "best_score": found.score if found else None,
        "best_round": found.submission_id if found else "",
        "agent_submissions": sum(entry.kind is SubmissionKind.AGENT for entry in entries),
        "auto_submissions": sum(entry.kind is SubmissionKind.AUTO for entry in entries),
        "entries": [entry.to_data() for entry in entries],
    }
