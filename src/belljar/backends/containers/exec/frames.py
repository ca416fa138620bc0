"""The two outputs of a command in one stream, as engines send them where there is no terminal, without I/O.

A frame is a byte that says which output it is of, three zeros, its length in four bytes, and so many bytes of it.
"""

import re
from typing import Final

STDOUT: Final = 1
STDERR: Final = 2

_HEAD: Final = 8
_SHORT: Final = 512

# What Podman says on the command's behalf when it has lost the command's streams.
_RESET: Final = re.compile(rb"Error: (?:read|write) unixpacket [^\n]*/attach: (?:read|write): [a-z ]+\n")


class FrameReader:
    """Takes a stream apart. Long frames are handed on as they come; they are not kept until they are complete."""

    __slots__ = ("_head", "_is_short", "_kept", "_left", "_output", "was_reset")

    def __init__(self) -> None:
        self.was_reset = False
        """Whether Podman has said, in words about sockets of its own, that it lost the streams."""
        self._head, self._kept = bytearray(), bytearray()
        self._output = STDOUT
        self._left = 0
        self._is_short = True

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Take the next piece of the stream, and return what is in it: to which output, and what."""
        found, position = [], 0
        while position < len(data):
            if self._left == 0:
                position += self._read_head(data[position : position + _HEAD - len(self._head)])
            else:
                piece = data[position : position + self._left]
                position += len(piece)
                if ready := self._read_content(piece):
                    found.append((self._output, ready))
        return found

    def _read_head(self, data: bytes) -> int:
        self._head += data
        if len(self._head) == _HEAD:
            # Whatever is not output is something the engine has to say.
            self._output = STDOUT if self._head[0] == STDOUT else STDERR
            self._left = int.from_bytes(self._head[4:])
            self._is_short = self._left <= _SHORT
            self._head.clear()
        return len(data)

    def _read_content(self, piece: bytes) -> bytes:
        """Take some of a frame, and return what can be handed on."""
        self._left -= len(piece)
        if not self._is_short:
            return piece
        self._kept += piece
        if self._left > 0:
            return b""
        whole = bytes(self._kept)
        self._kept.clear()
        if self._output == STDERR and _RESET.fullmatch(whole):
            self.was_reset = True
            return b""
        return whole
