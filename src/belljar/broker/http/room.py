"""Room for bodies that have to be judged, and so are kept until they are sent. Each sandbox has a part of it."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final, Self

from belljar.broker.refusals import RefusedRequest

_MOST_EACH: Final = 256 << 20
_MOST: Final = 1 << 30
_PIECE: Final = 128 << 10


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
    """A body, until it is sent."""

    def __init__(self, room: Room, sandbox: str) -> None:
        self._room, self._sandbox = room, sandbox
        self._taken = 0
        self._parts = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: bytes) -> None:
        """Keep more. Raises RefusedRequest if there is no room."""
        self._room.take(self._sandbox, len(part))
        self._taken += len(part)
        self._parts += part

    def whole(self) -> bytes:
        """Return all of it."""
        return bytes(self._parts)

    def replace(self, body: bytes) -> None:
        """Keep another instead."""
        self._parts = bytearray(body)

    async def sent(self) -> AsyncIterator[bytes]:
        """Hand it over to be sent; it is not kept any longer then, however long the answer takes."""
        for start in range(0, len(self._parts), _PIECE):  # in pieces: TLS never gives back the room that one took
            yield bytes(self._parts[start : start + _PIECE])
        self._release()

    def _release(self) -> None:
        self._room.give_back(self._sandbox, self._taken)
        self._taken = 0
        self._parts = bytearray()
