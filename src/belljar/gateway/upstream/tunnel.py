"""A tunnel through an HTTP proxy: the request for one, and the answer.

`TunnelDialogue` knows no sockets: it is fed the bytes of the proxy as they come. `open_tunnel` looks at bytes before it
takes them, and takes none that are behind the head of the answer: they are the first words of the server, and whoever
relays the connection finds them in the socket.

What a failure says is our own text with the status, never the proxy's words, and never a credential: it is told to the
sandbox and to the audit log.
"""

import re
from http import HTTPStatus
from typing import Final

from belljar.gateway.io.streams import Stream
from belljar.gateway.upstream.racing import HopelessError
from belljar.names import Host
from belljar.wire.http.responsehead import read_response_head
from belljar.wire.outcome import Refuse

MAX_HEAD: Final = 16384
"""How many bytes a proxy may send before the tunnel begins."""

_NO_ANSWER: Final = "the upstream proxy hung up without an answer"
_NOT_HTTP: Final = "the upstream proxy does not speak HTTP/1.1"
_END: Final = re.compile(rb"\n\r?\n")
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}


class ProxyError(HopelessError):
    """The upstream proxy is of no use, for this destination or for any."""


class UnreachableByProxyError(OSError):
    """The upstream proxy could not reach an address; it may reach another one."""


class TunnelDialogue:
    """The client's side of a CONNECT."""

    def __init__(self, host: Host, port: int, authorization: str | None = None) -> None:
        target = f"{host}:{port}" if isinstance(host, str) or host.version == 4 else f"[{host}]:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if authorization is not None:
            lines.append(f"Proxy-Authorization: {authorization}")
        self.request = "\r\n".join([*lines, "", ""]).encode("ascii")
        self._received = 0
        self._head = bytearray()

    def feed(self, data: bytes) -> int | None:
        """Read what the proxy has sent; return how many of these bytes belong to the tunnel, None if it is not open.

        Raises ProxyError and UnreachableByProxyError.
        """
        if not data:
            raise ProxyError(_NO_ANSWER)
        searched = max(0, len(self._head) - 2)
        self._received += len(data)
        self._head += data
        if self._head[0] <= 0x20:
            raise ProxyError(_NOT_HTTP)
        begin = 0
        while end := _END.search(self._head, max(begin, searched)):
            head = read_response_head(bytes(self._head[begin : end.end()]))
            begin = end.end()
            if isinstance(head, Refuse) or head.status == HTTPStatus.SWITCHING_PROTOCOLS:
                raise ProxyError(_NOT_HTTP)
            if not head.is_interim:
                _check(head.status)
                return len(self._head) - begin
        del self._head[:begin]
        if self._received > MAX_HEAD:
            raise ProxyError("the upstream proxy sends an answer without end")
        return None


async def open_tunnel(stream: Stream, dialogue: TunnelDialogue) -> None:
    """Turn a connection to a proxy into one to a destination. Raises OSError."""
    behind: int | None = None
    try:
        await stream.write(dialogue.request)
        while behind is None:
            data = await stream.peek(MAX_HEAD)
            behind = dialogue.feed(data)
            await stream.read(len(data) - (behind or 0))
    except ConnectionError:
        raise ProxyError(_NO_ANSWER) from None


def _check(status: int) -> None:
    """Raise what a status means, if it is not success."""
    if 200 <= status < 300:
        return
    if status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise ProxyError("the upstream proxy does not accept the gateway's credentials, or wants some (407)")
    phrase = _PHRASES.get(status, "no known status")
    if status >= 500:
        raise UnreachableByProxyError(f"the upstream proxy cannot reach it ({status} {phrase})")
    raise ProxyError(f"the upstream proxy refuses to connect to it ({status} {phrase})")
