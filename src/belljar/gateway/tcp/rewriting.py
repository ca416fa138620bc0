"""Requests that are not passed on as they came.

A request to a proxy is written anew for the server. So is one that offers to switch to another protocol than
WebSocket: on HTTP/2 or TLS, or with another proxy behind it, the connection could go on to hosts that nobody decided
about. An offer is no more than that, and without it the server answers in HTTP/1.
"""

from typing import Final

from belljar.wire.http.head import RequestHead
from belljar.wire.http.syntax import list_members, values

_FOR_THIS_HOP: Final = {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"upgrade"}
_WEBSOCKET: Final = b"websocket"


def offers_other_protocols(head: RequestHead) -> bool:
    """Tell whether a request offers to switch to anything but WebSocket."""
    return head.upgrade is not None and head.upgrade.lower() != _WEBSOCKET


def rewrite(head: RequestHead, target: str, *, keep_alive: bool) -> bytes:
    """Write a head for the server, without what was meant for the gateway and without offers that are not kept."""
    dropped = _FOR_THIS_HOP | list_members(values(head.headers, b"connection"))
    lines = [f"{head.method} {target} HTTP/{head.version}".encode()]
    lines += [b"%b: %b" % header for header in head.headers if header[0] not in dropped]
    if head.upgrade is not None and not offers_other_protocols(head):
        lines += [b"connection: upgrade", b"upgrade: websocket"]
    elif not keep_alive:
        lines.append(b"connection: close")
    return b"\r\n".join([*lines, b"", b""])


def rewrite_for_server(head: RequestHead) -> bytes:
    """Turn a request to a proxy into one to the server, the last one on its connection."""
    rest = head.target.partition("://")[2]
    authority = rest.partition("/")[0].partition("?")[0]
    path = rest[len(authority) :]
    if not path and head.method == "OPTIONS":
        path = "*"
    elif not path.startswith("/"):
        path = f"/{path}"
    written = rewrite(head, path, keep_alive=False)
    if values(head.headers, b"host"):
        return written
    first_line, rest_of_head = written.split(b"\r\n", 1)
    return b"%b\r\nhost: %b\r\n%b" % (first_line, authority.encode(), rest_of_head)
