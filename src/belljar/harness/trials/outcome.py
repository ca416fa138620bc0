"""How a trial ended. Only a graded trial has a score: a failure of the infrastructure is never a zero."""

from enum import StrEnum
from typing import Final


class TrialOutcome(StrEnum):
    """How a trial ended; docs/eval.md explains each."""

    PASSED = "passed"
    FAILED = "failed"
    TIMEOUT_GRADED = "timeout_graded"
    """The agent's time was over, and its work was graded."""

    AGENT_ERROR = "agent_error"
    """The agent's command failed, and the agent had submitted nothing."""

    AGENT_REFUSED = "agent_refused"
    BUDGET_EXCEEDED = "budget_exceeded"
    PROVIDER_RATE_LIMITED = "provider_rate_limited"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    AUTH_ERROR = "auth_error"
    INSTALL_ERROR = "install_error"
    """The task's setup failed or took too long."""

    ENVIRONMENT_ERROR = "environment_error"
    """The work sandbox could not be made."""

    SANDBOX_DIED = "sandbox_died"
    """The work sandbox ended under the agent."""

    ISOLATION_ERROR = "isolation_error"
    """The work sandbox was not sealed as it should be. The agent was not started."""

    GRADER_ERROR = "grader_error"
    GRADER_TIMEOUT = "grader_timeout"
    CANCELLED = "cancelled"
    LOST = "lost"
    """The harness ended before the trial did."""

    @property
    def is_scored(self) -> bool:
        """Whether a trial that ended so has a score."""
        return self in _SCORED


_SCORED: Final = (TrialOutcome.PASSED, TrialOutcome.FAILED, TrialOutcome.TIMEOUT_GRADED)
