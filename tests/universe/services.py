"""Services that are not the web's: each is a coroutine that has one call to answer."""

import asyncio
import socket
import struct
from typing import Protocol

from tests.universe.witness import Seen, Witness


class Call:
    """A connection that somebody made to a service."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, witness: Witness) -> None:
        self.reader = reader
        self.writer = writer
        self.address, self.port = writer.get_extra_info("sockname")[:2]
        self._witness = witness

    def record(self, kind: str, what: str = "") -> None:
        """Have the witness note something about this call."""
        self._witness.record(Seen(kind, self.address, self.port, what))

    async def send(self, data: bytes) -> None:
        """Send, but not faster than the caller reads."""
        self.writer.write(data)
        await self.writer.drain()

    def reset(self) -> None:
        """Hang up at once: the caller sees a reset."""
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Service(Protocol):
    """What answers a call."""

    async def __call__(self, call: Call) -> None: ...


async def echo(call: Call) -> None:
    """Send everything back, and then the end."""
    while data := await call.reader.read(65536):
        await call.send(data)
    call.writer.write_eof()


async def discard(call: Call) -> None:
    """Take everything, and at the end say how many bytes it was."""
    count = 0
    while data := await call.reader.read(1 << 20):
        count += len(data)
    await call.send(b"%d\n" % count)


async def stream(call: Call) -> None:
    """Send zeros for as long as the caller takes them."""
    while not call.reader.at_eof():
        await call.send(bytes(1 << 16))


async def ssh(call: Call) -> None:
    """Speak first, as SSH, SMTP and most databases do, and then echo."""
    await call.send(b"SSH-2.0-stand_in\r\n")
    await echo(call)


async def reset(call: Call) -> None:
    """Hang up on everybody who says anything."""
    await call.reader.read(1)
    call.reset()


async def silent(call: Call) -> None:
    """Listen and say nothing, until the caller gives up."""
    while await call.reader.read(65536):
        pass
