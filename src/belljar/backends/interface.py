"""What every backend can do, and what can be wrong with it.

The methods block, and any thread may call any of them; an asyncio server has threads for that. A backend knows nothing
of policies. It seals sandboxes, and says how they are attached to a gateway (`Attachment`): most hand out listeners.
While no gateway serves a sandbox, it is closed.
"""

import re
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

from belljar.errors import BelljarError
from belljar.sandbox.layers import Layer
from belljar.sandbox.spec import Command, SandboxSpec

if TYPE_CHECKING:  # what makes sandboxes does not serve them
    from belljar.gateway.attachment import Attachment

FILE_LIMIT: Final = 64 << 20
"""Bytes of a file that is put or got in one piece."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class MachineError(BelljarError):
    """This machine cannot do it as it is. Mend what the text names."""


class SpecError(BelljarError):
    """No such sandbox can be made, or no such command be run. Ask for another."""


class ImageMissingError(SpecError):
    """The engine does not have the image. Build or fetch it."""


class GoneError(BelljarError):
    """There is no such sandbox, or all its processes have ended. Destroy it, and create another."""


class PausedError(BelljarError):
    """The sandbox is paused. Resume it first."""


class PathError(BelljarError):
    """The agent itself could not read or write this file, or it is no file, or too large. Choose another path."""


class LostError(BelljarError):
    """A process of the backend was lost, and with it the answer. Look at what is there, and try again."""


class Streams(NamedTuple):
    """Descriptors of the caller's that a command gets as its standard streams, and that stay the caller's.

    Where the first is a terminal, it becomes the command's controlling terminal. A command outlives a server that
    crashes, but writing to a pipe that nobody reads would end it: give files to one that is to go on.
    """

    stdin: int
    stdout: int
    stderr: int


class Process(Protocol):
    """A command that was started."""

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the command has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the command has ended: 128+n if signal n ended it.

        127 means that there is no such program, 126 that it cannot be run. Raises TimeoutError while it runs on, and
        LostError if nobody will ever know.
        """

    def out_of_memory(self) -> bool:
        """Tell whether the kernel has ended something in the sandbox for want of memory since the command was started.

        False where nobody knows.
        """

    def signal(self, number: int) -> None:
        """Send a signal to the command and to what it has started, but for what has left its process group."""

    def close(self) -> None:
        """Let go of it. It runs on if it has not ended."""


class State(Enum):
    """How a sandbox is."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"
    """Its processes have ended, or it was never finished; what is left of it awaits `destroy`."""


class SandboxStatus(NamedTuple):
    """A sandbox that is there."""

    sandbox: str
    state: State


def is_name(text: str) -> bool:
    """Tell whether a sandbox can have a name: up to 64 letters, digits, hyphens and underscores."""
    return _NAME.fullmatch(text) is not None


class Backend(Protocol):
    """Sandboxes, by the names that the caller gives them (`is_name`).

    Any method raises LostError; methods that take a sandbox raise GoneError unless they say otherwise.
    """

    def create(self, sandbox: str, spec: SandboxSpec) -> "Attachment":
        """Make a sealed sandbox in which nothing runs yet, and return its doors, which are the caller's to close.

        It lives on when the caller dies. Raises SpecError (also if the name is taken) and MachineError; then nothing
        is left of it.
        """

    def adopt(self, sandbox: str) -> "Attachment":
        """Seal a sandbox anew and return new doors, after a crash of who served them.

        The doors it had must be closed by then. Raises MachineError; the sandbox is closed then.
        """

    def start(self, sandbox: str, command: Command, streams: Streams) -> Process:
        """Start a command, with no more rights than any other process inside.

        Raises PausedError, and SpecError for what no program can be given: no arguments, a NUL, too many bytes.
        """

    def put_file(self, sandbox: str, path: str, content: bytes, mode: int = 0o644) -> None:
        """Write a file, with the agent's rights and seen from inside; directories on the way are made.

        Raises PathError.
        """

    def get_file(self, sandbox: str, path: str, limit: int = FILE_LIMIT) -> bytes:
        """Read a file, with the agent's rights and seen from inside. Raises PathError, also if it exceeds the limit."""

    def put_tree(self, sandbox: str, path: str, archive: int) -> None:
        """Unpack a tar archive, read from a descriptor to its end, below a directory, which is made if it is not there.

        It is done with the agent's rights and seen from inside. No link is followed below the directory, files that are
        there are replaced, and devices are refused. Of modes, the permissions are kept. Raises PathError; then part of
        the archive may have been unpacked.
        """

    def get_tree(self, sandbox: str, path: str, archive: int, *, names: Sequence[str] = (".",), limit: int) -> None:
        """Write a tar archive of what is below a directory to a descriptor.

        It is done with the agent's rights and seen from inside. `names` are relative to the directory; what is not
        there is left out, and so are sockets, FIFOs and devices. Links are kept as links. What the archive holds is the
        agent's choice. Raises PathError, also if the archive exceeds the limit; then part of it may have been written.
        """

    def pause(self, sandbox: str) -> None:
        """Stop every process inside where it is. Nothing changes if it is paused already."""

    def resume(self, sandbox: str) -> None:
        """Let every process go on. Nothing changes if it is not paused."""

    def destroy(self, sandbox: str) -> None:
        """End every process inside, and take away all that the sandbox held. It need not be there."""

    def sandboxes(self) -> list[SandboxStatus]:
        """Return every sandbox of this owner, those of its earlier lives and the dead included."""

    def close(self) -> None:
        """Let go of the backend. Sandboxes and commands live on."""


@runtime_checkable
class Inspectable(Protocol):
    """What backends can do besides whose sandboxes can be looked into."""

    def look(self, sandbox: str) -> tuple[Layer, ...]:
        """Tell which layers of a sandbox are active, from what is seen. Raises GoneError, PausedError, LostError."""
