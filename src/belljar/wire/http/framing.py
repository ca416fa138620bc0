"""Where a request ends, and what may follow it on its connection (RFC 9112, 6 and 9; RFC 9110, 7.6 to 7.8).

Whoever forwards a request and whoever serves it must see its end at the same byte. So there is one way to
announce a body of known length, one way to announce chunks, and never both. HTTP/1.0 has no chunks, upgrades
or expectations: servers of its time ignore them, newer ones may not, so no request of that version has them.
"""

import re
from dataclasses import dataclass
from typing import Final

from belljar.wire.http.syntax import DECISIVE, Headers, RefusedHeadError, list_members, malformed, values
from belljar.wire.outcome import Fault

_LENGTH: Final = re.compile(rb"0|[1-9][0-9]{0,17}")  # some servers count in 64 bits, one of them a sign


@dataclass(frozen=True, slots=True)
class Body:
    """How many bytes behind the head belong to the request."""

    length: int = 0
    """Known beforehand; 0 if there is no body, or if it comes in chunks."""

    chunked: bool = False


NO_BODY: Final = Body()
CHUNKED: Final = Body(chunked=True)


@dataclass(frozen=True, slots=True)
class Framing:
    """Where a request ends, and what may follow."""

    body: Body
    keep_alive: bool
    upgrade: bytes | None
    expect_continue: bool


def read_framing(method: str, version: str, headers: Headers) -> Framing:
    """Read all that the headers say about the end of the request and about its connection."""
    modern = version == "1.1"
    options = _connection_options(headers)
    body = _read_body(headers, modern=modern)
    if method == "CONNECT" and body != NO_BODY:
        raise _ambiguous("CONNECT has a body")
    return Framing(
        body=body,
        keep_alive=b"close" not in options and (modern or b"keep-alive" in options),
        upgrade=_read_upgrade(headers, allowed=modern and b"upgrade" in options),
        expect_continue=_read_expectation(headers, modern=modern),
    )


def _read_body(headers: Headers, *, modern: bool) -> Body:
    codings = values(headers, b"transfer-encoding")
    lengths = values(headers, b"content-length")
    if not codings:
        return _read_length(lengths[0]) if lengths else NO_BODY
    if lengths:
        raise _ambiguous("there are both Content-Length and Transfer-Encoding")
    if not modern:
        raise _ambiguous("HTTP/1.0 has no Transfer-Encoding")
    if codings[0].lower() != b"chunked":
        raise _ambiguous("Transfer-Encoding is not just chunked")
    return CHUNKED


def _read_length(text: bytes) -> Body:
    if not _LENGTH.fullmatch(text):
        raise _ambiguous("Content-Length is not one plain decimal number of at most 18 digits")
    return Body(length=int(text))


def _connection_options(headers: Headers) -> frozenset[bytes]:
    """Return what Connection lists: options for this hop, and names of headers that the next must not see."""
    options = list_members(values(headers, b"connection"))
    if not options.isdisjoint(DECISIVE):
        raise malformed("Connection asks to drop Host, Content-Length or Transfer-Encoding")
    return options


def _read_upgrade(headers: Headers, *, allowed: bool) -> bytes | None:
    """Join what Upgrade lists; if it is not allowed, servers differ in whether they take it up."""
    protocols = values(headers, b"upgrade")
    if not protocols:
        return None
    if not allowed:
        raise malformed("Upgrade is not listed in Connection, or the version is HTTP/1.0")
    return b", ".join(protocols)


def _read_expectation(headers: Headers, *, modern: bool) -> bool:
    expectations = values(headers, b"expect")
    if not expectations:
        return False
    if not modern or [expectation.lower() for expectation in expectations] != [b"100-continue"]:
        raise malformed("Expect is not just 100-continue, or the version is HTTP/1.0")
    return True


def _ambiguous(detail: str) -> RefusedHeadError:
    return RefusedHeadError(Fault.AMBIGUOUS_HTTP_LENGTH, detail)
