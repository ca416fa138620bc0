"""Which headers go through, and which do not.

A sandbox's own credentials stay behind, whatever they are: a broker that passed them on would be a way to use somebody
else's account. So do headers by which a client would speak for others: where a request came from, which method is
really meant, and which of the key's organisations or projects pays, which is the key's owner's choice.
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
    }
)
_NEVER_RETURNED: Final = frozenset({b"set-cookie", b"set-cookie2", b"alt-svc", b"proxy-authenticate"})
_SECRET_PARAMETERS: Final = frozenset({"key", "access_token", "oauth_token", "api_key", "apikey", "api-key", "token"})


def for_upstream(received: Iterable[Header], ours: Iterable[Header]) -> list[Header]:
    """Return what is sent on: what of a sandbox's headers may be, and what the policy sets."""
    pairs = list(received)
    ours = [(name.lower(), value) for name, value in ours]
    without = _hop_by_hop(pairs) | {name for name, _ in ours}
    sent = [(name, value) for name, value in pairs if name not in without and _may_be_sent(name)]
    return [*sent, (b"accept-encoding", b"identity"), *ours]


def for_client(received: Iterable[Header]) -> list[Header]:
    """Return what of an answer's headers a sandbox gets to see."""
    pairs = [(name.lower(), value) for name, value in received]
    without = _hop_by_hop(pairs) | _NEVER_RETURNED
    if first(pairs, b"transfer-encoding") is not None:
        without |= {b"content-length"}  # which means nothing then
    return [(name, value) for name, value in pairs if name not in without]


def without_secrets(query: str) -> str:
    """Return a query without what would be a credential, or a header or a method by another way."""
    return "&".join(part for part in query.split("&") if not _is_secret(unquote_plus(part.partition("=")[0])))


def first(headers: Iterable[Header], name: bytes) -> bytes | None:
    """Return the value of a header. Names are in lower case."""
    return next((value for each, value in headers if each == name), None)


def _may_be_sent(name: bytes) -> bool:
    spelled = name.replace(b"_", b"-")  # which is what some servers take it for
    parts = (*_SPEAKS_OF_SECRETS, *_SPEAKS_FOR_OTHERS, b"sec-websocket-")
    return spelled not in _NEVER_SENT | _HOP_BY_HOP and not any(part in spelled for part in parts)


def _is_secret(parameter: str) -> bool:
    return parameter.startswith("$") or parameter.lower() in _SECRET_PARAMETERS


def _hop_by_hop(headers: Iterable[Header]) -> set[bytes]:
    named = b",".join(value for name, value in headers if name == b"connection")
    return {*_HOP_BY_HOP, *(each.strip().lower() for each in named.split(b","))}
