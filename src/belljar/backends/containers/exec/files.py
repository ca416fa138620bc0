"""Files of a sandbox, read and written by a program of ours inside: it has the agent's view and rights, and no others.

Links are followed as the agent would follow them, in its own file system. What looks like a file may be a pipe or a
device that would keep us waiting; so it is opened without waiting, and looked at before it is used. The program is run
by the toolbox's Python and imports nothing of ours; it says `ok`, or what is wrong, before the content of a file.
"""

import os
import stat
import sys
from typing import BinaryIO, Final

OK: Final = b"ok"

_CHUNK: Final = 1 << 20


def main() -> None:
    """Do what the arguments say: put PATH MODE, or get PATH LIMIT. Paths are from the working directory of ours."""
    task, path, number = sys.argv[1:]
    try:
        if task == "put":
            _put(path, int(number), sys.stdin.buffer)
            _say(OK)
        else:
            _say(OK, _get(path, int(number)))
    except OSError as error:
        _say((error.strerror or str(error)).encode())
    except ValueError as error:
        _say(str(error).encode())


def _put(path: str, mode: int, source: BinaryIO) -> None:
    os.umask(0)
    os.makedirs(os.path.dirname(path) or ".", mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120 - a quick start
    descriptor = _open(path, os.O_WRONLY | os.O_CREAT, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.ftruncate(descriptor, 0)
        while content := source.read(_CHUNK):
            file.write(content)
        os.fchmod(descriptor, mode)


def _get(path: str, limit: int) -> bytes:
    content = b""
    with os.fdopen(_open(path, os.O_RDONLY, 0), "rb") as file:
        while piece := file.read(min(_CHUNK, limit + 1 - len(content))):
            content += piece
    if len(content) > limit:
        raise ValueError(f"it has more than {limit} bytes")
    return content


def _open(path: str, flags: int, mode: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, mode)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("it is no regular file")
    return descriptor


def _say(*parts: bytes) -> None:
    sys.stdout.buffer.write(b"\n".join(parts) if len(parts) > 1 else parts[0] + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
