"""The URL of an upstream proxy: where it is, and the credentials it wants.

A value that cannot be read is described and never quoted, because a password may be anywhere in it.
"""

import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from belljar.names import Host, SpellingError, parse_authority

_FORM: Final = "write http://HOST:PORT or http://USER:PASSWORD@HOST:PORT"
_SCHEME: Final = "http://"
_CREDENTIALS: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})+", re.ASCII)


@dataclass(frozen=True, slots=True)
class UpstreamProxy:
    """An HTTP proxy that the gateway dials through."""

    host: Host
    port: int
    authorization: str | None = field(default=None, repr=False)
    """The value of Proxy-Authorization. It is a secret."""


def parse_proxy(url: str) -> UpstreamProxy:
    """Read the URL of a proxy. Raises SpellingError, whose text has nothing of the URL in it."""
    if not url.lower().startswith(_SCHEME):
        raise SpellingError(f"is not the URL of an HTTP proxy; {_FORM} (TLS to the proxy and SOCKS are not spoken)")
    credentials, at, authority = url[len(_SCHEME) :].removesuffix("/").rpartition("@")
    try:
        host, port = parse_authority(authority)
    except SpellingError:
        raise SpellingError(f"has no proper host and port at its end; {_FORM}") from None
    if port is None:
        raise SpellingError(f"has no port, and proxies have no usual one; {_FORM}")
    if not isinstance(host, str) and host.is_unspecified:
        raise SpellingError(f"has an address that stands for no host; {_FORM}")
    return UpstreamProxy(host, port, _basic(credentials) if at else None)


def _basic(credentials: str) -> str:
    """Return credentials as HTTP's basic scheme (RFC 7617) wants them."""
    if not _CREDENTIALS.fullmatch(credentials):
        raise SpellingError(
            "has credentials with characters that mean something else in a URL; "
            "write them as %XX, for example %40 for @ and %2F for /"
        )
    user, _, password = credentials.partition(":")
    try:
        user, password = unquote(user, errors="strict"), unquote(password, errors="strict")
    except UnicodeDecodeError:
        raise SpellingError("has credentials that are not UTF-8 behind their percent signs") from None
    if ":" in user or not (user + password).isprintable():
        raise SpellingError("has a colon in its user name, or a control character in its credentials") from None
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
