"""Which headers go through, and which do not.

Of a sandbox's own headers, those go to the provider that are known to be harmless; all others stay behind. There is no
end of headers by which a gateway for models is told where to send a request (`x-portkey-custom-host`), whose account
pays, which key to use or what the method is. A policy can set any header for its service.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus

Header = tuple[bytes, bytes]

_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_SENT: Final = frozenset(
    b"""
    accept accept-language cache-control content-encoding content-language content-type date if-match
    if-modified-since if-none-match if-unmodified-since pragma priority user-agent

    anthropic-beta anthropic-dangerous-direct-browser-access anthropic-version
    openai-beta
    http-referer x-title
    x-goog-api-client

    conversation-id conversation_id idempotency-key originator request-id session-id session_id thread-id
    thread_id traceparent version x-app x-client-request-id x-request-id x-session-id
    """.split()
)
"""Those of HTTP, of the known providers, and by which clients name themselves and their requests. No part of an answer
(`range`) and no later one (`prefer`) can be asked for: neither says what it took.
"""

_SENT_PREFIXES: Final = (b"x-stainless-", b"x-codex-", b"x-claude-code-", b"x-opencode-")
_SECRETS: Final = (b"auth", b"api-key", b"apikey", b"cookie", b"token", b"secret", b"credential", b"password")
_NEVER_RETURNED: Final = frozenset({b"set-cookie", b"set-cookie2", b"alt-svc", b"proxy-authenticate"})
_SECRET_PARAMETERS: Final = frozenset({"key", "access_token", "oauth_token", "api_key", "apikey", "api-key", "token"})
_READABLE_FORMS: Final = frozenset({"alt=json", "alt=sse"})
_AS_JUDGED: Final = {b"content-type": b"application/json"}
"""How a body is to be read that was judged, whatever its sender says."""


def for_upstream(received: Iterable[Header], ours: Iterable[Header], *, is_judged: bool = False) -> list[Header]:
    """Return what is sent on: what of a sandbox's headers may be, and what the policy sets."""
    pairs = list(received)
    set_here = {**(_AS_JUDGED if is_judged else {}), **{name.lower(): value for name, value in ours}}
    without = _hop_by_hop(pairs) | set_here.keys() | ({b"content-encoding"} if is_judged else set())
    sent = [(name, value) for name, value in pairs if name not in without and _may_be_sent(name)]
    return [*sent, (b"accept-encoding", b"identity"), *set_here.items()]


def for_client(received: Iterable[Header]) -> list[Header]:
    """Return what of an answer's headers a sandbox gets to see."""
    pairs = [(name.lower(), value) for name, value in received]
    without = _hop_by_hop(pairs) | _NEVER_RETURNED
    if first(pairs, b"transfer-encoding") is not None:
        without |= {b"content-length"}  # which means nothing then
    return [(name, value) for name, value in pairs if name not in without]


def without_secrets(query: str) -> str:
    """Return a query without what would be a credential, a header or a method by another way, or an answer's form."""
    return "&".join(part for part in query.split("&") if not _stays_behind(unquote_plus(part)))


def first(headers: Iterable[Header], name: bytes) -> bytes | None:
    """Return the value of a header. Names are in lower case."""
    return next((value for each, value in headers if each == name), None)


def _may_be_sent(name: bytes) -> bool:
    if name in _SENT:
        return True
    return name.startswith(_SENT_PREFIXES) and not any(part in name for part in _SECRETS)


def _stays_behind(part: str) -> bool:
    name = part.partition("=")[0].lower()
    if name in {"fields", "alt"}:
        return part not in _READABLE_FORMS
    return name.startswith("$") or name in _SECRET_PARAMETERS


def _hop_by_hop(headers: Iterable[Header]) -> set[bytes]:
    named = b",".join(value for name, value in headers if name == b"connection")
    return {*_HOP_BY_HOP, *(each.strip().lower() for each in named.split(b","))}
