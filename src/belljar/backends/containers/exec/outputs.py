"""What is to be written to the caller's standard output and error, in the order in which it came.

The descriptors are duplicates, but what they stand for is the caller's: it blocks or not as the caller has it, and
perhaps somebody else writes to it, too. So it is for poll(2) to say when something fits, and then as much is written as
fits wherever anything does.
"""

import os
import stat
from collections import deque
from typing import Final

_FITS: Final = 4096
"""What a pipe takes at once if it takes anything."""


class Outputs:
    """Two descriptors, and what waits to be written to them.

    A reader that has gone away ends nobody but itself: the rest of what was for it is thrown away. The command does not
    learn of it, as it would by a signal if it had the pipe itself.
    """

    def __init__(self, stdout: int, stderr: int) -> None:
        self._targets: dict[int, _Target] = {}
        self._waiting: deque[tuple[int, memoryview]] = deque()
        self.size = 0
        """How many bytes wait."""
        for number, descriptor in enumerate((stdout, stderr), start=1):
            self._targets[number] = _Target(descriptor)

    def put(self, output: int, data: bytes) -> None:
        """Have bytes written: to 1, or to 2."""
        if data and output in self._targets:
            self._waiting.append((output, memoryview(data)))
            self.size += len(data)

    def target(self) -> int | None:
        """Return the descriptor that is to be written to next; None if there is nothing to write."""
        return self._targets[self._waiting[0][0]].descriptor if self._waiting else None

    def write(self) -> None:
        """Write some bytes to the descriptor that is next, and ready."""
        output, data = self._waiting.popleft()
        try:
            written = self._targets[output].write(data)
        except OSError:  # nobody reads it, or the disk is full: a program would be told, and would go on or not
            self.size -= len(data)
            self._drop(output)
            return
        self.size -= written
        if written < len(data):
            self._waiting.appendleft((output, data[written:]))

    def close(self) -> None:
        """Let go of both."""
        for output in [*self._targets]:
            self._drop(output)

    def _drop(self, output: int) -> None:
        os.close(self._targets.pop(output).descriptor)
        self._waiting = deque(piece for piece in self._waiting if piece[0] != output)
        self.size = sum(len(data) for _, data in self._waiting)


class _Target:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = os.dup(descriptor)
        self._is_file = stat.S_ISREG(os.fstat(self.descriptor).st_mode)

    def write(self, data: memoryview) -> int:
        try:
            return os.write(self.descriptor, data if self._is_file else data[:_FITS])
        except BlockingIOError:  # somebody else was quicker
            return 0
