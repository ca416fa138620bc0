"""What the judge reports of one submission: `report.json`, with SForge's fields."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final


class SubmissionKind(StrEnum):
    """Who has submitted: the agent, the harness at intervals, or a person with `belljar eval score`."""

    AGENT = "agent"
    AUTO = "auto"
    MANUAL = "manual"


class SubmissionStatus(StrEnum):
    """How far a submission has come."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    """The judge could not grade it: there is no report, and it is not a score of zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestDetail:
    """One check."""

    __test__ = False  # not for pytest

    name: str
    status: str
    message: str = ""
    score: float | None = None
    weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalReport:
    """The result of grading one submission."""

    task_id: str
    submission_id: str
    total_tests: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    pass_rate: float = 0.0
    score: float | None = None
    score_0_100: float | None = None
    timed_out: bool = False
    exit_code: int | None = None
    """Of `eval_cmd`, as the backend reports it. It is evidence: scores come from what the grader has reported."""

    runtime_seconds: float = 0.0
    valid: bool = True
    summary: str = ""
    details: tuple[TestDetail, ...] = ()
    metrics: Mapping[str, float | str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Members of the archive that were not unpacked, with the reason of each."""

    submitted_at: str = ""

    def to_data(self) -> dict[str, Any]:
        """Return what `report.json` holds."""
        data = asdict(self)
        data["test_details"] = [{"name": detail.name, "status": detail.status} for detail in self.details]
        data["details"] = [
            {key: value for key, value in detail.items() if value is not None} for detail in data["details"]
        ]
        return data

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "EvalReport":
        """Return the report that became plain data. Raises KeyError, TypeError."""
        known = {each.name for each in fields(cls)}
        details = tuple(TestDetail(**detail) for detail in data.get("details", ()))
        left_out = tuple(data.get("left_out", ()))
        return cls(**{**{name: data[name] for name in known & set(data)}, "details": details, "left_out": left_out})

    def for_agent(self) -> dict[str, Any]:
        """Return what the agent may see."""
        return {key: value for key, value in self.to_data().items() if key not in _NOT_FOR_AGENTS}


_NOT_FOR_AGENTS: Final = ("score_0_100",)
