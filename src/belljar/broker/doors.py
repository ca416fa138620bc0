"""Through which door a client came, what is known of it there, and what it has to show."""

import hmac
from typing import Final, NamedTuple

from belljar.broker.http.exchange import Exchange
from belljar.broker.http.headers import first
from belljar.broker.preamble import Preamble
from belljar.broker.refusals import RefusedRequest
from belljar.broker.secrets import Secret
from belljar.names import SpellingError, parse_authority
from belljar.policy.services import is_this_machine

_WHERE_KEYS_ARE: Final = (b"x-api-key", b"x-goog-api-key", b"api-key")
_BEARER: Final = b"bearer "


class Door(NamedTuple):
    """What is known of a connection before its first request."""

    preamble: Preamble
    hosts: frozenset[bytes] | None = None
    """The names that requests may be for; None for any."""

    token: Secret | None = None
    """What clients have to show as their key."""

    def check(self, exchange: Exchange) -> None:
        """Refuse who is not for this door. Raises RefusedRequest."""
        host = first(exchange.headers, b"host") or b""
        if self.hosts is not None and host.lower() not in self.hosts:
            raise RefusedRequest(403, "host", f"the Host of a request has to be {self.preamble.service.host}")
        if self.hosts is None and self.token is None:
            _check_no_page(host, first(exchange.headers, b"origin"))
        if self.token is not None and not _shows(exchange, self.token):
            raise RefusedRequest(401, "token", "send the token that `belljar proxy` was started with as your API key")


def inner_door(preamble: Preamble) -> Door:
    """Return the door of a sandbox, which knows a service by one name."""
    host, at = preamble.service.host.encode(), preamble.service.at
    return Door(preamble, frozenset({host, b"%b:%d" % (host, at)}))


def _check_no_page(host: bytes, origin: bytes | None) -> None:
    """Refuse pages in a browser, also those whose own name leads here: they say no origin where they only read."""
    if origin is not None:
        raise RefusedRequest(403, "origin", "a page in a browser asks, and without a token none is served")
    try:
        is_here = is_this_machine(parse_authority(host.decode("ascii"))[0])
    except (SpellingError, UnicodeDecodeError):
        is_here = False
    if not is_here:
        raise RefusedRequest(403, "host", "without a token, the Host of a request has to be localhost or 127.0.0.1")


def _shows(exchange: Exchange, token: Secret) -> bool:
    shown = [value for name, value in exchange.headers if name in _WHERE_KEYS_ARE]
    for name, value in exchange.headers:
        if name == b"authorization" and value[: len(_BEARER)].lower() == _BEARER:
            shown.append(value[len(_BEARER) :].strip())
    wanted = token.reveal().encode()
    return any(hmac.compare_digest(each, wanted) for each in shown)
