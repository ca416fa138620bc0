"""Where a request wants to go: its target and its Host header, which must agree (RFC 9112, 3.2 and 3.3).

A target in absolute form has the scheme http. With https it would ask a proxy to speak TLS in the client's
place; it is refused, since there is CONNECT for that.
"""

from enum import Enum
from typing import Final, NamedTuple

from belljar.names import Host, SpellingError, parse_authority
from belljar.wire.http.syntax import RefusedHeadError, malformed
from belljar.wire.outcome import Fault

HTTP_PORT: Final = 80

_HTTP: Final = "http://"
_HTTPS: Final = "https://"


class TargetForm(Enum):
    """The four ways to write a target."""

    ORIGIN = "origin"  # /path?query
    ABSOLUTE = "absolute"  # http://host/path?query, to a proxy
    AUTHORITY = "authority"  # host:port, with CONNECT
    ASTERISK = "asterisk"  # *, with OPTIONS


class Destination(NamedTuple):
    """What a request is for, in canonical spelling."""

    form: TargetForm
    host: Host
    port: int | None


def read_destination(method: str, target: str, version: str, host_header: bytes | None) -> Destination:
    """Read the target of a request, and make sure that its Host header says the same."""
    if host_header is None and version == "1.1":
        raise _bad_host("an HTTP/1.1 request has no Host header")
    form = _form(method, target)
    claimed = None if host_header is None else _read_authority(host_header, "the Host header")
    if form is TargetForm.ORIGIN or form is TargetForm.ASTERISK:
        if claimed is None:
            raise _bad_host("neither the target nor a Host header names a host")
        return Destination(form, *claimed)

    host, port, default_port = _named_by_target(form, target)
    if claimed is not None and (claimed[0], claimed[1] or default_port) != (host, port):
        raise _bad_host("the target and the Host header name different hosts or ports")
    return Destination(form, host, port)


def _form(method: str, target: str) -> TargetForm:
    if method == "CONNECT":
        return TargetForm.AUTHORITY
    if target.startswith("/"):
        return TargetForm.ORIGIN
    if target == "*" and method == "OPTIONS":
        return TargetForm.ASTERISK
    scheme = target[: len(_HTTPS)].lower()
    if scheme.startswith(_HTTP):
        return TargetForm.ABSOLUTE
    if scheme == _HTTPS:
        raise malformed("the target is an https URL, for which there is CONNECT")
    raise malformed("the target is neither a path nor an http URL")


def _named_by_target(form: TargetForm, target: str) -> tuple[Host, int, int]:
    """Return the host and port that the target names, and the port of a Host header that names none."""
    if form is TargetForm.ABSOLUTE:
        authority = target[len(_HTTP) :].partition("/")[0].partition("?")[0]
        host, port = _read_authority(authority.encode("ascii"), "the target")
        return host, port or HTTP_PORT, HTTP_PORT
    host, port = _read_authority(target.encode("ascii"), "the target of CONNECT")
    if port is None:
        raise _bad_host("the target of CONNECT has no port")
    return host, port, port


def _read_authority(authority: bytes, where: str) -> tuple[Host, int | None]:
    try:
        # The decoding is strict, because the reader of names takes international ones as well.
        return parse_authority(authority.decode("ascii"))
    except (UnicodeDecodeError, SpellingError):
        # Not the reader's own words: they quote what the client sent.
        raise _bad_host(f"{where} is not a host name or an address, with or without a port") from None


def _bad_host(detail: str) -> RefusedHeadError:
    return RefusedHeadError(Fault.BAD_HTTP_HOST, detail)
