"""What every request has to pass: it names this server, comes from no other web page, and has the token.

The first two keep web pages out that a browser on this machine shows: one whose name was made to lead here (DNS
rebinding) says so in the Host header, and one of another origin says so in Origin or Sec-Fetch-Site. Whoever is on the
unix socket is known to be the same user, and needs no token; a browser cannot get there.
"""

from collections.abc import Collection, Mapping
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from belljar.control.http.peers import TRUSTED
from belljar.control.http.responses import problem_answer
from belljar.control.tokens import TokenFile
from belljar.names import SpellingError, parse_authority
from belljar.runtime.problems import ProblemError

DESCRIPTION: Final = "/api/v1/openapi.json"
"""What can be read of the API without a token."""

_LOCAL_NAMES: Final = frozenset({"localhost"})
_OUR_SITES: Final = frozenset({"same-origin", "none"})
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every answer says to browsers."""


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, *, token: TokenFile, names: Collection[str] = ()) -> None:
        self._app, self._token, self._names = app, token, frozenset(names) | _LOCAL_NAMES

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it."""
        if scope["type"] != "http":
            raise RuntimeError("nothing but HTTP is served here")
        try:
            self._check(scope)
        except ProblemError as problem:
            await problem_answer(problem)(scope, receive, _with_headers(send))
        else:
            await self._app(scope, receive, _with_headers(send))

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        is_trusted = bool(scope.get("state", {}).get(TRUSTED))
        if not is_trusted:
            self._check_host(headers)
        _check_origin(headers)
        if not is_trusted and needs_token(scope["path"]):
            self._check_token(headers)

    def _check_host(self, headers: Mapping[str, str]) -> None:
        """An address in the Host header cannot have been rebound; of names, only those that are ours will do."""
        given = headers.get("host", "")
        try:
            host, _ = parse_authority(given)
        except SpellingError:
            host = ""
        if not isinstance(host, str) or host in self._names:
            return
        raise ProblemError(
            "host_not_allowed",
            f"{given!a} is none of this server's names; use its address, or name it with --expose",
        )

    def _check_token(self, headers: Mapping[str, str]) -> None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._token.matches(token.strip()):
            raise ProblemError(
                "unauthorized",
                "the request has no token, or not the one of this server; send `Authorization: Bearer TOKEN` with "
                "what `belljar token show` prints",
            )


def needs_token(path: str) -> bool:
    """Tell whether a path tells or changes anything of any sandbox."""
    return (path.startswith("/api/") and path != DESCRIPTION) or path == "/metrics"


def _check_origin(headers: Mapping[str, str]) -> None:
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    is_ours = origin is None or origin.partition("://")[2] == headers.get("host")
    if not is_ours or (site is not None and site not in _OUR_SITES):
        raise ProblemError(
            "foreign_origin",
            f"this is a web page of {origin or 'another site'!a}; call from your own program",
        )


def _with_headers(send: Send) -> Send:
    extra = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *extra]
        await send(message)

    return sending
