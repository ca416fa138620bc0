"""TLS over a stream that holds little. asyncio's own sets a quarter of a megabyte aside for each connection."""

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from belljar.broker.http.bytestream import ByteStream
from belljar.broker.http.fairloop import give_way

_MAX_READ: Final = 64 << 10
_MAX_RECORDS: Final = 64
"""They may have one byte each."""

Result = TypeVar("Result")


class TlsStream:
    """The client's side of TLS."""

    def __init__(self, stream: "ByteStream | TlsStream", context: ssl.SSLContext, name: str | None) -> None:
        self._stream = stream
        self._arrived, self._leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_hostname=name)

    @property
    def has_something(self) -> bool:
        """Whether `receive` would not wait, or not for the other side's data."""
        return self._stream.has_something or bool(self._arrived.pending) or self._tls.pending() > 0

    async def shake_hands(self, seconds: float | None) -> None:
        """Agree with the other side, and verify who it is. Raises ssl.SSLError, OSError and TimeoutError."""
        await self._do(self._tls.do_handshake, seconds)
        await self._flush(seconds)

    async def receive(self, seconds: float | None, limit: int = _MAX_READ) -> bytes:
        """Return what has arrived, up to a limit; nothing at the end. Raises TimeoutError."""
        await give_way()
        try:
            data = await self._do(lambda: self._tls.read(limit), seconds)
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""
        parts, size = [data], len(data)
        with suppress(ssl.SSLError):  # a read returns one record; what else is there goes with it
            while size < limit and len(parts) < _MAX_RECORDS and (more := self._tls.read(limit - size)):
                parts.append(more)
                size += len(more)
        return b"".join(parts)

    async def send(self, data: bytes, seconds: float | None) -> None:
        """Send. Raises StalledError."""
        self._tls.write(data)
        await self._flush(seconds)

    async def _do(self, step: Callable[[], Result], seconds: float | None) -> Result:
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                await self._flush(seconds)
                data = await self._stream.receive(seconds)
                if data:
                    self._arrived.write(data)
                else:
                    self._arrived.write_eof()

    async def _flush(self, seconds: float | None) -> None:
        if self._leaving.pending:
            await self._stream.send(self._leaving.read(), seconds)
