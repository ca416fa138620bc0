"""What can be wrong with what somebody asks for, under a stable code. Whoever speaks HTTP says it in its terms.

Messages of this project say what is wrong and then, after a semicolon or on a line of its own, what to do about it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from belljar.errors import BelljarError
from belljar.policy import InvalidPolicyError


class FieldProblem(NamedTuple):
    """One thing that is wrong with a request."""

    field: str
    """Where: `network.egress.allowed_domains[2]`; empty for the body as a whole."""

    message: str


class ProblemError(BelljarError):
    """A request that is refused, and has changed nothing."""

    def __init__(
        self, code: str, message: str, *, field: str | None = None, findings: Iterable[FieldProblem] = ()
    ) -> None:
        super().__init__(message)
        self.code, self.field, self.findings = code, field, tuple(findings)


def refusing(code: str, findings: Iterable[FieldProblem]) -> ProblemError:
    """Return the problem that consists of these findings, of which there is at least one."""
    found = tuple(findings)
    return ProblemError(code, found[0].message, field=found[0].field or None, findings=found)


def invalid_policy(error: InvalidPolicyError, within: str = "") -> ProblemError:
    """Return what is wrong with a policy that stands at some place of a body."""
    found = [
        FieldProblem(
            ".".join(filter(None, (within, problem.where))), problem.message if problem.where else str(problem)
        )
        for problem in error.problems
    ]
    return refusing("invalid_policy", found)
