"""Messages between the supervisor and a worker: plain data and descriptors, over a unix stream socket.

A message is two numbers, the length of its JSON and how many descriptors belong to it, and then the JSON. It may be
larger than the kernel's buffers. Descriptors are sent along with the first bytes that the kernel takes, and it keeps
both in their order; so the receiver need not know which bytes they came with.

Nobody waits for a message to be sent: the other end may not read for a while, and whoever has given up on an answer by
then must not leave half a message behind.
"""

import json
import os
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from belljar.gateway.io.loop import Loop, Task
from belljar.linux.descriptors import receive_descriptors

_HEAD: Final = Struct("!II")
_READ_BYTES: Final = 1 << 16


class Message(NamedTuple):
    """What one side said; whoever takes it owns the descriptors."""

    data: dict[str, Any]
    descriptors: list[int]


class Channel:
    """One end of the conversation. Whatever way the other end is lost, whoever listens gets an EOFError."""

    def __init__(self, loop: Loop, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003 - the standard library's interface
        self._loop, self._end = loop, end
        self.watch = loop.watch(end)
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._writing: Task | None = None

    def send(self, data: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message as soon as it can be; the descriptors stay the sender's."""
        body = json.dumps(data).encode()
        self._unsent.append((_HEAD.pack(len(body), len(descriptors)) + body, list(map(os.dup, descriptors))))
        if self._writing is None or self._writing.done:
            self._writing = self._loop.spawn(self._write())

    async def receive(self) -> Message:
        """Receive the next message. Raises EOFError."""
        length, count = _HEAD.unpack(await self._take(_HEAD.size))
        data = json.loads(await self._take(length))
        return Message(data, [self._descriptors.popleft() for _ in range(count)])

    def close(self) -> None:
        """End the conversation: the other end sees that at once."""
        if self._writing is not None:
            self._writing.cancel()
        self._loop.unwatch(self._end)
        self._end.close()
        for descriptor in (*self._descriptors, *(sent for _, sending in self._unsent for sent in sending)):
            os.close(descriptor)
        self._descriptors.clear()
        self._unsent.clear()

    async def _write(self) -> None:
        """Send what waits, message by message. One that the other end will never read is left to `close`."""
        while self._unsent:
            frame, descriptors = self._unsent[0]
            rest = memoryview(frame)
            while rest:
                try:
                    sent = socket.send_fds(self._end, [rest], descriptors)
                except BlockingIOError:
                    await self._loop.writable(self.watch)
                except OSError:
                    return  # whoever listens will notice
                else:
                    rest = rest[sent:]
                    while descriptors:
                        os.close(descriptors.pop())
            self._unsent.popleft()

    async def _take(self, size: int) -> bytes:
        while len(self._bytes) < size:
            try:
                received, descriptors = receive_descriptors(self._end, _READ_BYTES)
            except BlockingIOError:
                await self._loop.readable(self.watch)
                continue
            except OSError as error:
                raise EOFError from error
            if not received:
                raise EOFError
            self._bytes += received
            self._descriptors += descriptors
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        return taken
