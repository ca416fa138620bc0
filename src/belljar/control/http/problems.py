"""Problems as clients are told of them (RFC 9457).

Messages of this project say what is wrong and then, after a semicolon or on a line of its own, what to do about it; a
problem has both apart.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from belljar.backends.interface import GoneError, LostError, MachineError, PathError, PausedError, SpecError
from belljar.errors import BelljarError
from belljar.gateway.upstream.proxy import UnenforceableError
from belljar.gateway.workers.process import RefusedError, WorkerLostError, WorkerSilentError
from belljar.policy import InvalidPolicyError
from belljar.runtime.problems import FieldProblem, ProblemError, invalid_policy
from belljar.runtime.storage import StorageError

CONTENT_TYPE: Final = "application/problem+json"


class ProblemKind(NamedTuple):
    """What all problems with one code have in common."""

    status: int
    title: str


KINDS: Final[Mapping[str, ProblemKind]] = MappingProxyType(
    {
        "invalid_request": ProblemKind(400, "The request is not what this path takes."),
        "invalid_policy": ProblemKind(400, "The network policy cannot be accepted."),
        "control_port": ProblemKind(400, "The port of this server is never opened to a sandbox."),
        "state_exposed": ProblemKind(400, "The state of this server is never shown in a sandbox."),
        "unmakeable": ProblemKind(400, "No such sandbox can be made, or no such command be run."),
        "unusable_path": ProblemKind(400, "The file cannot be read or written inside."),
        "unauthorized": ProblemKind(401, "The token is missing or wrong."),
        "host_not_allowed": ProblemKind(403, "The Host header does not name this server."),
        "foreign_origin": ProblemKind(403, "Web pages of other origins may not use this server."),
        "path_not_found": ProblemKind(404, "There is no such path."),
        "sandbox_not_found": ProblemKind(404, "There is no such sandbox."),
        "grant_not_found": ProblemKind(404, "There is no such grant."),
        "method_not_allowed": ProblemKind(405, "The path has no such method."),
        "sandbox_paused": ProblemKind(409, "The sandbox is paused."),
        "sandbox_not_ready": ProblemKind(409, "The sandbox is not in a state for this."),
        "grant_without_effect": ProblemKind(409, "The grant would open nothing."),
        "sandbox_gone": ProblemKind(410, "All processes of the sandbox have ended."),
        "policy_changed": ProblemKind(412, "Somebody else has changed the policy."),
        "too_large": ProblemKind(413, "The request is too large."),
        "unsupported_media_type": ProblemKind(415, "The body is not of the type that this path takes."),
        "idempotency_key_reused": ProblemKind(422, "The idempotency key belongs to another request."),
        "unenforceable_policy": ProblemKind(422, "The policy cannot be enforced with the settings of this gateway."),
        "internal_error": ProblemKind(500, "A bug in Belljar."),
        "machine_unable": ProblemKind(503, "This machine cannot do it as it is."),
        "backend_lost": ProblemKind(503, "A process of the backend was lost."),
        "gateway_lost": ProblemKind(503, "A process of the gateway was lost."),
        "gateway_silent": ProblemKind(503, "A process of the gateway does not answer, and nothing was changed."),
        "storage_unavailable": ProblemKind(503, "The database cannot be used, and nothing was changed."),
        "storage_full": ProblemKind(507, "The disk is full, and nothing was changed."),
        "not_written_down": ProblemKind(507, "It is done, but could not be written down yet."),
    }
)
"""Every code. Codes are added, and never change their meaning."""

_OF_ERRORS: Final[tuple[tuple[type[BelljarError], str], ...]] = (
    (SpecError, "unmakeable"),
    (MachineError, "machine_unable"),
    (GoneError, "sandbox_gone"),
    (PausedError, "sandbox_paused"),
    (PathError, "unusable_path"),
    (LostError, "backend_lost"),
    (RefusedError, "unenforceable_policy"),
    (UnenforceableError, "unenforceable_policy"),
    (WorkerLostError, "gateway_lost"),
    (WorkerSilentError, "gateway_silent"),
)


def as_problem(error: BelljarError) -> ProblemError:
    """Return what a client is told of an error."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, InvalidPolicyError):
        return invalid_policy(error)
    if isinstance(error, StorageError):
        return ProblemError("storage_full" if error.is_full else "storage_unavailable", str(error))
    code = next((code for kind, code in _OF_ERRORS if isinstance(error, kind)), "internal_error")
    return ProblemError(code, str(error))


def status_of(problem: ProblemError) -> int:
    """Return the status of the answer."""
    return KINDS[problem.code].status


def to_data(problem: ProblemError) -> dict[str, Any]:
    """Return the answer's body."""
    kind = KINDS[problem.code]
    detail, remedy = _apart(str(problem))
    return {
        "type": f"urn:belljar:problem:{problem.code}",
        "title": kind.title,
        "status": kind.status,
        "code": problem.code,
        "detail": detail,
        "remedy": remedy,
        "field": problem.field,
        "problems": [_finding_to_data(finding) for finding in problem.findings],
    }


def _apart(message: str) -> tuple[str, str | None]:
    detail, _, remedy = message.partition("\n" if "\n" in message else "; ")
    return detail, remedy or None


def _finding_to_data(finding: FieldProblem) -> dict[str, Any]:
    detail, remedy = _apart(finding.message)
    return {"field": finding.field or None, "detail": detail, "remedy": remedy}
