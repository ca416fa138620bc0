"""Which headers go through, and which do not.

A sandbox's own credentials stay behind, whatever they are: a broker that passed them on would be a way to use somebody
else's account. So do headers by which a client would speak for others: where a request came from, which method is
really meant, and which of the key's organisations or projects pays, which is the key's owner's choice. And nothing asks
for an answer of which it cannot be read what it took.
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_plus

Header = tuple[bytes, bytes]

_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
_SPEAKS_OF_SECRETS: Final = (b"auth", b"api-key", b"apikey", b"cookie", b"token", b"secret", b"credential", b"password")
_SPEAKS_FOR_OTHERS: Final = (
    b"sec-websocket-",
    b"forwarded",
    b"method-override",
    b"http-method",
    b"real-ip",
    b"client-ip",
    b"proxy-",
)
_NEVER_SENT: Final = frozenset(
    {
        b"host",
        b"expect",
        b"via",
        b"accept-encoding",
        b"content-length",
        b"openai-organization",
        b"openai-project",
        b"x-goog-user-project",
        b"x-original-url",
        b"x-rewrite-url",
        b"x-goog-fieldmask",
    }
)
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
    sent = [(name, value) for name, value in pairs if not {name, _spelled(name)} & without and _may_be_sent(name)]
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
    spelled = _spelled(name)
    parts = (*_SPEAKS_OF_SECRETS, *_SPEAKS_FOR_OTHERS, b"sec-websocket-")
    return spelled not in _NEVER_SENT | _HOP_BY_HOP and not any(part in spelled for part in parts)


def _spelled(name: bytes) -> bytes:
    """Return what some servers take a name for."""
    return name.replace(b"_", b"-")


def _stays_behind(part: str) -> bool:
    name = part.partition("=")[0].lower()
    if name in {"fields", "alt"}:
        return part not in _READABLE_FORMS
    return name.startswith("$") or name in _SECRET_PARAMETERS


def _hop_by_hop(headers: Iterable[Header]) -> set[bytes]:
    named = b",".join(value for name, value in headers if name == b"connection")
    return {*_HOP_BY_HOP, *(each.strip().lower() for each in named.split(b","))}
