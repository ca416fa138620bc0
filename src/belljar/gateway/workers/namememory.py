"""Which name has which virtual address, in memory that outlives a worker.

An agent may remember an address longer than the worker that handed it out lived. So every worker writes down what it
hands out, in a memory file that the supervisor holds as well, and the next worker begins with that: an address means
the same name as before, or nothing.

Number n of the virtual addresses has 256 bytes of its own, which hold its name and zeros. A name is written before its
address is known to anybody, and in a single write within a page, which is done whole or not at all.
"""

import os
from typing import Final

_ROOM: Final = 256  # a name has 253 bytes at most, and a page is a multiple of this


class NameMemory:
    """The names of one sandbox."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def create(cls) -> "NameMemory":
        """Make one that is empty."""
        return cls(os.memfd_create("belljar-names", os.MFD_CLOEXEC))

    def write(self, number: int, name: str) -> None:
        """Note down to which name a number belongs from now on."""
        os.pwrite(self.descriptor, name.encode("ascii").ljust(_ROOM, b"\0"), number * _ROOM)

    def read(self) -> list[str]:
        """Return the names in the order of their numbers."""
        text = os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0).decode("ascii")
        return [text[start : start + _ROOM].rstrip("\0") for start in range(0, len(text), _ROOM)]

    def close(self) -> None:
        """Let go of it; it is gone when nobody holds it."""
        os.close(self.descriptor)
