"""The reading end of a named pipe, for the loop's thread."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_CHUNK: Final = 65536
"""As much as a pipe holds."""

_DRAIN_PAUSE: Final = 0.02
"""Between two looks at what nobody wants to know: there may be many who write without end."""


class OutputPipe:
    """A named pipe, which is made if it is not there."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with suppress(FileExistsError):
            os.mkfifo(path)
            path.chmod(0o666)  # programs open /dev/stderr by its name, as whoever they are; others cannot get here
        self._end = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def open_writer(self) -> int:
        """Open an end to write to that can be read from as well, so that nobody is ever told of a broken pipe."""
        return os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def read_now(self) -> bytes:
        """Return all that is there."""
        try:
            return os.read(self._end, _CHUNK)
        except BlockingIOError:
            return b""

    async def read(self) -> bytes:
        """Return something as soon as there is some; nothing at the end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._end, _CHUNK)
            except BlockingIOError:
                readable = asyncio.Event()
                loop.add_reader(self._end, readable.set)
                try:
                    await readable.wait()
                finally:
                    loop.remove_reader(self._end)

    async def drain(self) -> None:
        """Read until nobody writes any more, a bit at a time, and let go of it."""
        try:
            while await self.read():
                await asyncio.sleep(_DRAIN_PAUSE)
        finally:
            self.close()

    def close(self) -> None:
        """Let go of it, and of its name."""
        os.close(self._end)
        self._path.unlink(missing_ok=True)
