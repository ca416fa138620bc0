"""Network namespaces, held by a descriptor.

A network namespace belongs to a thread, not to a process. So whatever is to happen in one happens in a thread made
for it (`NetworkNamespace.run`), and the threads of the caller stay where they are. A socket belongs for ever to
the namespace of the thread that made it, whoever uses it later; a child process starts in the namespace of the
thread that starts it.

No name is left behind in /run/netns: a namespace lives as long as a descriptor, a thread or a socket holds it.
"""

import errno
import os
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

if sys.version_info >= (3, 12):
    from os import setns, unshare
else:
    import ctypes

    _libc = ctypes.CDLL(None, use_errno=True)

    def unshare(flags: int) -> None:
        """Move the calling thread into new namespaces."""
        _check(_libc.unshare(flags))

    def setns(fd: int, nstype: int) -> None:
        """Move the calling thread into the namespace that a descriptor holds."""
        _check(_libc.setns(fd, nstype))

    def _check(result: int) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

T = TypeVar("T")


class NetworkNamespace:
    """A network namespace, for as long as this object is open."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def create(cls) -> Self:
        """Make a namespace that has nothing but a loopback interface, which is down.

        Raises OSError without CAP_SYS_ADMIN in the user namespace of the caller.
        """
        return _in_a_thread(cls._unshared)

    @classmethod
    def current(cls) -> Self:
        """Hold the namespace of the calling thread."""
        return cls(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    @classmethod
    def _unshared(cls) -> Self:
        unshare(CLONE_NEWNET)
        return cls.current()

    def fileno(self) -> int:
        """Return the descriptor that holds the namespace."""
        return self._descriptor

    def enter(self) -> None:
        """Move the calling thread into the namespace, for good.

        Raises OSError without CAP_SYS_ADMIN in the user namespaces of the caller and of the namespace.
        """
        if self._descriptor < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        setns(self._descriptor, CLONE_NEWNET)

    def run(self, function: Callable[[], T]) -> T:
        """Call a function in the namespace, and return what it returns or raise what it raises."""

        def inside() -> T:
            self.enter()
            return function()

        return _in_a_thread(inside)

    def close(self) -> None:
        """Let go of the namespace."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _in_a_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread that ends with it, and with it the thread's membership in a namespace."""
    # Imported here: a command that makes its own namespaces has no use for it, and would wait for it.
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    with ThreadPoolExecutor(1, thread_name_prefix="belljar-namespace") as thread:
        return thread.submit(function).result()
