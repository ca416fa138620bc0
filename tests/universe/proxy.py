"""A proxy as corporate networks have them: it opens tunnels to whatever it is asked for."""

import asyncio
import base64
from collections.abc import Mapping
from ipaddress import ip_address

from tests.universe.services import Call, Service
from tests.universe.web import Request
from tests.universe.zone import Entry

PHRASES = {
    200: "Connection established",
    403: "Forbidden",
    407: "Proxy Authentication Required",
    502: "Bad Gateway",
}


def tunnels(
    zone: Mapping[str, Entry], *, credentials: tuple[str, str] | None = None, names_only: bool = False
) -> Service:
    """Return a proxy that resolves names in a zone."""
    expected = "Basic " + base64.b64encode(":".join(credentials).encode()).decode() if credentials else ""

    async def service(call: Call) -> None:
        request = Request(await call.reader.readuntil(b"\r\n\r\n"))
        host, _, port = request.target.rpartition(":")
        host = host.strip("[]")
        status, server = 200, None
        if request.headers.get("proxy-authorization", "") != expected:
            status = 407
        elif names_only and host not in zone:
            status = 403
        else:
            try:
                server = await asyncio.open_connection(_address(zone, host), int(port))
            except OSError:
                status = 502
        call.record("tunnel", f"{request.target} {status}")
        await call.send(f"HTTP/1.1 {status} {PHRASES[status]}\r\nProxy-Agent: stand-in\r\n\r\n".encode())
        if server is not None:
            await _relay(call, *server)

    return service


def _address(zone: Mapping[str, Entry], host: str) -> str:
    if host in zone:
        return zone[host].addresses[0]
    return str(ip_address(host))


async def _relay(call: Call, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await asyncio.gather(_pump(call.reader, writer), _pump(reader, call.writer))
    finally:
        writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
