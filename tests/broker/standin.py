"""A provider on loopback, over TLS or without, that keeps every byte it was sent."""

import asyncio
import json
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Self

import h11


class Seen(NamedTuple):
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)


class Call:
    """A request, and the connection to answer it on."""

    def __init__(self, seen: Seen, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.seen, self.reader, self.writer = seen, reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)  # a lost connection drops data without a pause: endless answers would stop the loop

    async def answer(self, body: bytes, status: int = 200, headers: str = "", kind: str = "application/json") -> None:
        head = f"HTTP/1.1 {status} Answer\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
        await self.send(head.encode() + body)

    async def stream(self) -> None:
        await self.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def event(self, data: Any) -> None:
        await self.chunk(f"data: {json.dumps(data)}\n\n".encode())


Page = Callable[[Call], Awaitable[None]]


class StandIn:
    """The provider. Pages by path; every other path answers with a little JSON."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.raw = bytearray()
        self.seen: list[Seen] = []
        self.pages: dict[str, Page] = {}
        self.connections = 0
        self.ended = 0
        self.changed = threading.Condition()
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stopping = False
        self.port = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://localhost:{self.port}"

    def wait(self, condition: Callable[[], bool], seconds: float = 60) -> bool:
        """Wait until something about it is so."""
        with self.changed:
            return self.changed.wait_for(condition, seconds)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context, backlog=2048)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._stopping = True
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.run_until_complete(asyncio.sleep(0.01))  # transports are closed in a later turn
        self._loop.close()

    def _note(self, change: Callable[[], None]) -> None:
        with self.changed:
            change()
            self.changed.notify_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._note(lambda: setattr(self, "connections", self.connections + 1))
        machine = h11.Connection(h11.SERVER)
        try:
            while (seen := await self._read(machine, reader)) is not None:
                self._note(lambda seen=seen: self.seen.append(seen))  # type: ignore[misc]
                call = Call(seen, reader, writer)
                page = self.pages.get(seen.target.partition("?")[0])
                await (page(call) if page else call.answer(b'{"ok": true}'))
                machine = h11.Connection(h11.SERVER)
        except (ConnectionError, h11.RemoteProtocolError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            self._note(lambda: setattr(self, "ended", self.ended + 1))
            writer.transport.abort() if self._stopping else writer.close()

    async def _read(self, machine: h11.Connection, reader: asyncio.StreamReader) -> Seen | None:
        request, body = None, bytearray()
        while True:
            event = machine.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(65536)
                self.raw += data
                machine.receive_data(data)
            elif isinstance(event, h11.Request):
                request = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and request is not None:
                headers = [(name.decode(), value.decode()) for name, value in request.headers]
                return Seen(request.method.decode(), request.target.decode(), headers, bytes(body))
            else:
                return None
