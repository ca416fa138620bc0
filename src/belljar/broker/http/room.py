"""Room for bodies that have to be judged, and so are kept until they are sent. Each sandbox has a part of it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final, Self

from belljar.broker.http.fairloop import give_way
from belljar.broker.refusals import RefusedRequest

_MOST_EACH: Final = 256 << 20
_MOST: Final = 1 << 30
_PIECE: Final = 64 << 10
_FREED_AT_ONCE: Final = 8
"""Pieces. To give 32 MiB back to the kernel takes up to ten milliseconds."""


class Room:
    """How much is kept, in all and for each sandbox."""

    def __init__(self) -> None:
        self._in_all = 0
        self._of_each = Counter[str]()

    def keep(self, sandbox: str) -> "Kept":
        """Return what keeps a body of a sandbox's, for as long as its context lasts."""
        return Kept(self, sandbox)

    def take(self, sandbox: str, count: int) -> None:
        """Have more kept. Raises RefusedRequest if there is no room."""
        if self._in_all + count > _MOST or self._of_each[sandbox] + count > _MOST_EACH:
            raise RefusedRequest(503, "room", "too many large requests are under way; wait until some have been sent")
        self._in_all += count
        self._of_each[sandbox] += count

    def give_back(self, sandbox: str, count: int) -> None:
        """Have less kept."""
        self._in_all -= count
        self._of_each[sandbox] -= count
        if not self._of_each[sandbox]:
            del self._of_each[sandbox]


class Kept:
    """A body, until it is sent. It is held in pieces: to move many megabytes takes longer than a turn."""

    def __init__(self, room: Room, sandbox: str) -> None:
        self._room, self._sandbox = room, sandbox
        self._taken = self._length = 0
        self._pieces: list[bytearray] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def __len__(self) -> int:
        return self._length

    def add(self, part: bytes) -> None:
        """Keep more. Raises RefusedRequest if there is no room."""
        self._room.take(self._sandbox, len(part))
        self._taken += len(part)
        self._length += len(part)
        if self._pieces and len(self._pieces[-1]) + len(part) <= _PIECE:
            self._pieces[-1] += part
        else:
            self._pieces.append(bytearray(part))

    def whole(self) -> bytes:
        """Return all of it."""
        return b"".join(self._pieces)

    async def end_with(self, end: bytes) -> None:
        """Replace the brace at the end, which many megabytes of spaces may follow."""
        while not (last := self._pieces[-1].rstrip()):
            self._length -= len(self._pieces.pop())
            await give_way()
        self._length += len(last) - 1 + len(end) - len(self._pieces[-1])
        self._pieces[-1] = last[:-1] + end

    async def pieces(self) -> AsyncIterator[bytes]:
        """Return it in pieces; nothing more once it is not kept any longer."""
        for piece in self._pieces:
            yield bytes(piece)
            await give_way()

    async def sent(self) -> AsyncIterator[bytes]:
        """Hand it over to be sent; it is not kept any longer then, however long the answer takes."""
        async for piece in self.pieces():
            yield piece
        self._release()

    def _release(self) -> None:
        """Free a few pieces, and the others in later turns. Only what is freed is given back to the room."""
        freed = self._pieces[-_FREED_AT_ONCE:]
        del self._pieces[-_FREED_AT_ONCE:]
        taken = min(sum(map(len, freed)), self._taken) if self._pieces else self._taken
        self._room.give_back(self._sandbox, taken)
        self._taken -= taken
        if self._pieces:
            asyncio.get_running_loop().call_soon(self._release)
        self._length = 0
