"""Messages between the supervisor and a worker: plain data and descriptors, over a unix stream socket.

A message is two numbers, the length of its JSON and how many descriptors belong to it, and then the JSON. It may be
larger than the kernel's buffers. Descriptors are sent along with the first bytes that the kernel takes, and it keeps
both in their order; so the receiver need not know which bytes they came with.
"""

import json
import os
import socket
from collections import deque
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from belljar.gateway.loop import Loop
from belljar.linux.descriptors import receive_descriptors

_HEAD: Final = Struct("!II")
_READ_BYTES: Final = 1 << 16


class Message(NamedTuple):
    """What one side said; whoever takes it owns the descriptors."""

    data: dict[str, Any]
    descriptors: list[int]


class Channel:
    """One end of the conversation. Whatever way the other end is lost, that is an EOFError."""

    def __init__(self, loop: Loop, end: socket.socket) -> None:
        end.setblocking(False)  # noqa: FBT003 - the standard library's interface
        self._loop, self._end = loop, end
        self.watch = loop.watch(end)
        self._bytes = bytearray()
        self._descriptors: deque[int] = deque()

    async def send(self, data: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send a message; the descriptors stay the sender's. Raises EOFError."""
        body = json.dumps(data).encode()
        rest = memoryview(_HEAD.pack(len(body), len(descriptors)) + body)
        while rest:
            try:
                sent = socket.send_fds(self._end, [rest], descriptors)
            except BlockingIOError:
                await self._loop.writable(self.watch)
            except OSError as error:
                raise EOFError from error
            else:
                rest, descriptors = rest[sent:], ()

    async def receive(self) -> Message:
        """Receive the next message. Raises EOFError."""
        length, count = _HEAD.unpack(await self._take(_HEAD.size))
        data = json.loads(await self._take(length))
        return Message(data, [self._descriptors.popleft() for _ in range(count)])

    def ended(self) -> bool:
        """Tell whether the other end is lost; it is asked when there is nothing to be received."""
        try:
            self._end.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        """End the conversation: the other end sees that at once."""
        self._loop.unwatch(self._end)
        self._end.close()
        for descriptor in self._descriptors:
            os.close(descriptor)

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
