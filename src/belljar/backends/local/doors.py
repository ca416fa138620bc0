"""A sandbox's doors, which are answered once somebody knocks.

To import the gateway takes longer than to make a sandbox, and many a command asks nothing of the network. So the sealed
sandbox goes ahead, and the gateway is imported for the first connection or datagram, which waits in the kernel for that
long. Until then nobody answers, which is as good as closed.

What is imported while a command runs must not be what the command can write to, such as an installation in the working
directory. There, and where an audit log is to tell of every sandbox, or a proxy may make a policy unenforceable, the
gateway is imported before.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from belljar.gateway.io.loop import Loop
from belljar.gateway.listeners import Listeners
from belljar.linux.descriptors import is_readable
from belljar.sandbox.files import ownplaces
from belljar.sandbox.spec import Bind

if TYPE_CHECKING:
    from belljar.gateway.gateway import Gateway
    from belljar.sandbox.network import NetworkAccess


class LazyGateway:
    """What is between a sandbox and the network."""

    def __init__(self, loop: Loop, network: "NetworkAccess", listeners: Listeners) -> None:
        self._loop, self._network, self._listeners = loop, network, listeners
        self._gateway: Gateway | None = None

    def open(self) -> None:
        """Have the gateway answer."""
        from belljar.sandbox.serving import serve  # noqa: PLC0415 - see above

        self._gateway = serve(self._loop, self._network, self._listeners)

    def open_on_first_connection(self) -> None:
        """Have the gateway answer once it is needed."""
        for listener in self._listeners:
            self._loop.watch(listener).on_readable = self._open_late

    def _open_late(self) -> None:
        for listener in self._listeners:
            self._loop.unwatch(listener)
        self.open()

    def close(self) -> None:
        """Report what the sandbox has attempted by now, for which the gateway may have to open; then stop answering."""
        if self._gateway is None and any(is_readable(listener.fileno()) for listener in self._listeners):
            self._open_late()
        if self._gateway is not None:
            self._gateway.close_all()
        else:
            self._listeners.close()


@contextmanager
def answered(
    loop: Loop, network: "NetworkAccess | None", listeners: Listeners | None, binds: Iterable[Bind]
) -> Iterator[None]:
    """Have a sandbox's doors answered, of which it has none without `network`. `binds` are what is shown inside."""
    if network is None or listeners is None:
        yield
        return
    doors = LazyGateway(loop, network, listeners)
    has_more_to_say = network.ledger.audit is not None or network.settings.proxy is not None  # that it cannot be done
    writable = [bind.source for bind in binds if bind.writable]
    if ownplaces.has_modules_in(writable) or has_more_to_say:
        doors.open()
    else:
        doors.open_on_first_connection()
    try:
        yield
    finally:
        doors.close()
