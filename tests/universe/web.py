"""The web: HTTP and HTTPS, whose pages show how a server can behave.

`/` and every path that is not listed here says which host and path it is.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tests.universe.certificates import Certificates, name_asked_for
from tests.universe.services import Call, Service, echo


class Request:
    """A request, with its bytes as they arrived."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.body = b""
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, self.version = (*first.split(" "), "", "")[:3]
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def host(self) -> str:
        """The host that the client says it wants."""
        return self.headers.get("host", "")


async def http(call: Call) -> None:
    """Answer requests for as long as the client sends any."""
    async for request in _requests(call):
        call.record("request", f"{request.method} {request.host} {request.target}")
        page = PAGES.get("/" + request.target.split("/")[1] if request.target.startswith("/") else "", plain)
        await page(call, request)
        if request.headers.get("connection", "").lower() == "close" or call.writer.is_closing():
            return


def https(certificates: Certificates) -> Service:
    """Return the same, behind TLS."""
    context = certificates.server_context()

    async def service(call: Call) -> None:
        await call.writer.start_tls(context)
        call.record("handshake", name_asked_for(call.writer.get_extra_info("ssl_object")))
        await http(call)

    return service


async def _requests(call: Call) -> AsyncIterator[Request]:
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            request = Request(await call.reader.readuntil(b"\r\n\r\n"))
            if request.headers.get("expect", "").lower() == "100-continue":
                await call.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.body = await _body(call, request)
            yield request


async def _body(call: Call, request: Request) -> bytes:
    if "chunked" not in request.headers.get("transfer-encoding", ""):
        return await call.reader.readexactly(int(request.headers.get("content-length", "0")))
    body = b""
    while size := int(await call.reader.readline(), 16):
        body += await call.reader.readexactly(size)
        await call.reader.readline()
    await call.reader.readline()
    return body


async def _answer(call: Call, body: bytes, *headers: str, status: str = "200 OK") -> None:
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain", f"Content-Length: {len(body)}", *headers]
    await call.send("\r\n".join([*lines, "", ""]).encode() + body)


async def plain(call: Call, request: Request) -> None:
    """Say which host and path this is."""
    page = f"{request.host} {request.target}\n".encode()
    if request.method == "HEAD":
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page))
    else:
        await _answer(call, page)


async def echo_request(call: Call, request: Request) -> None:
    """Show the request as it arrived, with a body that had been cut in chunks put together."""
    await _answer(call, request.head + request.body)


async def count(call: Call, request: Request) -> None:
    """`/bytes/N`: a body of so many bytes."""
    await _answer(call, bytes(int(request.target.split("/")[2])))


async def chunked(call: Call, _: Request) -> None:
    """A body in three chunks."""
    await call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in (b"one ", b"two ", b"three\n"):
        await call.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    await call.send(b"0\r\n\r\n")


async def slow(call: Call, _: Request) -> None:
    """A body that takes its time."""
    await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    for piece in (b"s", b"l", b"o", b"w", b"\n"):
        await asyncio.sleep(0.02)
        await call.send(piece)


async def status(call: Call, request: Request) -> None:
    """`/status/N`: a status whose answer has no body, whatever its head says."""
    length = "Content-Length: 5\r\n" if request.target.endswith("304") else ""
    await call.send(f"HTTP/1.1 {request.target.split('/')[2]} Something\r\n{length}\r\n".encode())


async def until_close(call: Call, _: Request) -> None:
    """A body that ends with the connection."""
    await call.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end\n")
    call.writer.close()


async def hang(call: Call, _: Request) -> None:
    """No answer, ever."""
    while await call.reader.read(65536):
        pass
    call.writer.close()


async def stall(call: Call, request: Request) -> None:
    """The beginning of an answer, and no more."""
    await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await hang(call, request)


async def reset(call: Call, _: Request) -> None:
    """The beginning of an answer, and then a reset."""
    await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    call.reset()


async def redirect(call: Call, request: Request) -> None:
    """`/redirect/URL`: somewhere else."""
    await _answer(call, b"", f"Location: {request.target.removeprefix('/redirect/')}", status="302 Found")


async def upgrade(call: Call, _: Request) -> None:
    """Another protocol from here on, as with WebSockets: an echo."""
    await call.send(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
    await echo(call)
    call.writer.close()


PAGES = {
    "/bytes": count,
    "/chunked": chunked,
    "/echo": echo_request,
    "/hang": hang,
    "/redirect": redirect,
    "/reset": reset,
    "/slow": slow,
    "/stall": stall,
    "/status": status,
    "/until-close": until_close,
    "/upgrade": upgrade,
}
