"""What can go wrong, by what to do about it. The server's own problems have a stable code, too (docs/api.md)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from belljar.errors import BelljarError


class Finding(NamedTuple):
    """One thing that is wrong with a request."""

    field: str | None
    detail: str
    remedy: str | None

    def __str__(self) -> str:
        what = f"{self.detail}; {self.remedy}" if self.remedy else self.detail
        return f"{self.field}: {what}" if self.field else what


class ClientError(BelljarError):
    """Any error of the SDK. `code`, `field`, `remedy` and `findings` are the server's, if it has answered."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        field: str | None = None,
        remedy: str | None = None,
        findings: tuple[Finding, ...] = (),
    ) -> None:
        super().__init__(message)
        self.code, self.field, self.remedy, self.findings = code, field, remedy, findings


class NoServerError(ClientError):
    """Nobody serves there. Start a server with `belljar serve`, or name another one."""


class TokenError(ClientError):
    """The token is missing or wrong. Give the one that `belljar token show` prints."""


class ServerNameError(ClientError):
    """The server is not known by this name. Use another, or start it with `--expose NAME`."""


class RequestError(ClientError):
    """The request cannot be granted as it is, and has changed nothing. Mend what `field` names."""


class PolicyError(RequestError):
    """The network policy cannot be accepted, and nothing has changed. Mend what `field` names."""


class PathError(RequestError):
    """The commands inside could not read or write this file, or it is no file, or too large. Choose another path."""


class NotFoundError(ClientError):
    """There is no such sandbox, or no such grant. Look at those that there are."""


class GoneError(ClientError):
    """All processes of the sandbox have ended. Delete it, and claim another."""


class PausedError(ClientError):
    """The sandbox is paused. Resume it first."""


class NotReadyError(ClientError):
    """The sandbox is being made or deleted, or waits for its doors. Try again later."""


class PolicyChangedError(ClientError):
    """Somebody else has changed the policy since you got it. Get it, look at it, and try again."""


class TroubleError(ClientError):
    """The server's machine cannot do it as it is, and nothing has changed. Mend what the text names, and try again."""


class LostError(ClientError):
    """The connection broke, and with it the answer. Look at what is there, and try again."""


class BugError(ClientError):
    """The server failed, or its answer cannot be understood. See its log; update the older of the two."""


_OF_CODES: Final[Mapping[str, type[ClientError]]] = {
    "invalid_request": RequestError,
    "invalid_policy": PolicyError,
    "control_port": PolicyError,
    "state_exposed": RequestError,
    "unmakeable": RequestError,
    "unusable_path": PathError,
    "unauthorized": TokenError,
    "host_not_allowed": ServerNameError,
    "foreign_origin": RequestError,
    "path_not_found": BugError,
    "sandbox_not_found": NotFoundError,
    "grant_not_found": NotFoundError,
    "method_not_allowed": BugError,
    "sandbox_paused": PausedError,
    "sandbox_not_ready": NotReadyError,
    "grant_without_effect": PolicyError,
    "sandbox_gone": GoneError,
    "policy_changed": PolicyChangedError,
    "too_large": RequestError,
    "unsupported_media_type": BugError,
    "idempotency_key_reused": RequestError,
    "unenforceable_policy": PolicyError,
    "internal_error": BugError,
    "machine_unable": TroubleError,
    "backend_lost": TroubleError,
    "gateway_lost": TroubleError,
    "gateway_silent": TroubleError,
    "storage_unavailable": TroubleError,
    "storage_full": TroubleError,
    "not_written_down": TroubleError,
}

_UNAUTHORIZED: Final = (
    "the server wants its token, and this is not it; set BELLJAR_TOKEN to what `belljar token show` prints there"
)
"""What the server says speaks of HTTP."""


@contextmanager
def understanding(what: str) -> Iterator[None]:
    """Turn what goes wrong while an answer is read into a BugError."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        cause = f"{type(error).__name__}: {error}"
        raise BugError(f"{what} cannot be understood ({cause}); update Belljar on the older side") from None


def error_of(problem: Mapping[str, Any]) -> ClientError:
    """Return the error that a problem of the server's is. Codes that this client does not know go by their status."""
    try:
        code, status = str(problem["code"]), int(problem["status"])
        whole = Finding(problem["field"], problem["detail"], problem["remedy"])
        findings = tuple(Finding(one["field"], one["detail"], one["remedy"]) for one in problem["problems"])
    except (KeyError, TypeError, ValueError):
        return BugError("the server's problem cannot be understood; update Belljar on the older side")
    kind = _OF_CODES.get(code) or (BugError if status >= 500 else RequestError)
    message = _UNAUTHORIZED if kind is TokenError else "\n".join(map(str, findings or (whole,)))
    return kind(message, code=code, field=whole.field, remedy=whole.remedy, findings=findings)
