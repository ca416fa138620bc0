"""Places: network namespaces that are lived in."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from belljar.linux.namespaces import NetworkNamespace

P = ParamSpec("P")
T = TypeVar("T")


class Place:
    """A network namespace with threads that live in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.namespace = NetworkNamespace.create()
        self._threads = ThreadPoolExecutor(64, thread_name_prefix=name, initializer=self.namespace.enter)

    def start(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Begin something in this place. It must have ended when the place is closed."""
        return self._threads.submit(function, *args, **kwargs)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something in this place, and return what comes of it. Sockets and children made there stay there."""
        return self.start(function, *args, **kwargs).result()

    def close(self) -> None:
        """Wait for everything that happens here to end, and let the namespace go."""
        self._threads.shutdown()
        self.namespace.close()
