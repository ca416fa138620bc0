"""One run of one task at the judge: its limits, and its submissions."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from belljar.errors import BelljarError
from belljar.harness.judge.grading import ReceivedSubmission
from belljar.harness.judge.report import EvalReport, SubmissionKind, SubmissionStatus
from belljar.harness.tasks.model import EvalTask

UNGRADED: Final = "the judge could not grade this submission; it does not count, submit again"
"""What an agent sees of a failure of the judge, whose text may tell of hidden tests."""

_MAX_WAITING: Final = 8
"""Submissions of one session that wait for the judge: one session cannot fill the queue of all."""

_MAX_STORED: Final = 16 << 30
"""Bytes of archives that one session may leave on the disk."""


class SubmissionRefusedError(BelljarError):
    """The judge does not do this. `status` says why, as HTTP has it."""

    def __init__(self, status: int, text: str, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status, self.retry_after = status, retry_after


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLimits:
    """What one run may ask of the judge. The first two hold for the agent alone."""

    max_submissions: int | None = None
    cooldown: float | None = None
    """Seconds between two submissions."""

    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(slots=True, eq=False)
class QueuedSubmission:
    """A submission that was accepted, and how far it has come."""

    received: ReceivedSubmission
    kind: SubmissionKind
    status: SubmissionStatus = SubmissionStatus.QUEUED
    report: EvalReport | None = None
    error: str | None = None

    @property
    def id(self) -> str:
        """Its name within the session: `agent-1`."""
        return self.received.id

    @property
    def is_done(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in (SubmissionStatus.COMPLETED, SubmissionStatus.ERROR)

    def to_data(self, *, for_agent: bool) -> dict[str, Any]:
        """Return what the API says of it."""
        report = self.report and (self.report.for_agent() if for_agent else self.report.to_data())
        error = UNGRADED if for_agent and self.error else self.error
        return {"submission_id": self.id, "status": self.status.value, "report": report, "error": error}


@dataclass(slots=True, eq=False)
class JudgeSession:
    run_id: str
    task: EvalTask
    limits: SessionLimits
    directory: Path
    submissions: dict[str, QueuedSubmission] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """The last number of each kind."""

    used_before: int = 0
    """Submissions of the agent's that an earlier life of the judge has accepted."""

    last_agent: float | None = None
    stored: int = 0
    closed: bool = False
    checking: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def remaining(self) -> int | None:
        """How often the agent may submit; one that could not be graded does not count."""
        if self.limits.max_submissions is None:
            return None
        used = sum(
            1
            for submission in self.submissions.values()
            if submission.kind is SubmissionKind.AGENT and submission.status is not SubmissionStatus.ERROR
        )
        return max(0, self.limits.max_submissions - used - self.used_before)

    def check(self, kind: SubmissionKind, now: float) -> None:
        """Raise SubmissionRefusedError if there may be no other submission now."""
        if self.closed:
            raise SubmissionRefusedError(409, "the run has ended, and nothing more is graded")
        if kind is SubmissionKind.AGENT:
            self._check_agent(now)
        if sum(not submission.is_done for submission in self.submissions.values()) >= _MAX_WAITING:
            raise SubmissionRefusedError(
                429, f"cooldown: {_MAX_WAITING} submissions of this run wait for the judge; wait for a result", 10
            )
        if self.stored >= _MAX_STORED:
            raise SubmissionRefusedError(429, f"submission budget exhausted: {_MAX_STORED >> 30} GB were submitted")

    def _check_agent(self, now: float) -> None:
        most, wait = self.limits.max_submissions, self.limits.cooldown
        if self.remaining == 0:
            raise SubmissionRefusedError(429, f"submission budget exhausted: all {most} submissions were used")
        if wait is not None and self.last_agent is not None and (left := self.last_agent + wait - now) > 0:
            raise SubmissionRefusedError(
                429, f"submission cooldown: wait {int(left) + 1} s before the next submission", left
            )
