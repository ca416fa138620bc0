"""What the broker says itself, in the form in which a client expects errors of its provider."""

import json
from collections.abc import Mapping
from typing import Any, Final

from belljar.broker.dialects import ApiDialect

_ANTHROPIC: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_OPENAI: Final = {403: "permission_error", 429: "rate_limit_error", 502: "api_error", 503: "api_error"}
_GEMINI: Final = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
}
_WORTH_RETRYING: Final = frozenset({502, 503})


class RefusedRequest(Exception):  # noqa: N818 - it is an answer, and nothing has gone wrong here
    """A request that the broker answers itself: with a status, a short code that stays the same, and words."""

    def __init__(self, status: int, code: str, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.retry_after = status, code, message, retry_after

    def headers(self) -> list[tuple[str, str]]:
        """Return the answer's headers. Clients of the large providers go by the second one."""
        found = [("content-type", "application/json")]
        if self.retry_after is not None:
            found.append(("retry-after", str(self.retry_after)))
        elif self.status not in _WORTH_RETRYING:
            found.append(("x-should-retry", "false"))
        return found

    def body(self, dialect: ApiDialect) -> bytes:
        """Return the answer's body in a provider's form."""
        return json.dumps(_in_form(dialect, self.status, self.code, f"Belljar: {self.message}")).encode()


def _in_form(dialect: ApiDialect, status: int, code: str, message: str) -> Mapping[str, Any]:
    if dialect is ApiDialect.ANTHROPIC:
        kind = _ANTHROPIC.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    if dialect is ApiDialect.GEMINI:
        return {"error": {"code": status, "message": message, "status": _GEMINI.get(status, "INVALID_ARGUMENT")}}
    kind = _OPENAI.get(status, "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
