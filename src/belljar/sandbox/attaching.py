"""One sandbox that is made, served wherever its gateway is, and ended, all in the foreground.

One that is elsewhere is told what to enforce, and what it tells is noted here.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from belljar.gateway.attachment import Attachment, ServedElsewhere
from belljar.gateway.audit.log import keep_flushed
from belljar.gateway.audit.reading import read_event
from belljar.gateway.io.loop import Loop
from belljar.gateway.listeners import Listeners
from belljar.policy import ResolvedPolicy
from belljar.sandbox.network import NetworkAccess
from belljar.sandbox.serving import serve

_READ_BYTES: Final = 65536


@contextmanager
def served(create: Callable[[], Attachment], network: NetworkAccess | None, end: Callable[[], None]) -> Iterator[Loop]:
    """Have a sandbox made, and served on a loop of its own; end it when all is over. Without `network` nobody serves.

    It is ended also if it could not be made.
    """
    loop = Loop()
    try:
        attachment = create()
        close = attachment.close
        try:
            if network is not None:
                close = _attach(loop, network, attachment)
            else:
                attachment.close()
            yield loop
        finally:
            close()
    finally:
        end()


def _attach(loop: Loop, network: NetworkAccess, attachment: Attachment) -> Callable[[], None]:
    """Have a gateway answer at a sandbox's doors, wherever they are; return what ends that."""
    if isinstance(attachment, Listeners):
        return serve(loop, network, attachment).close_all
    return _GatewayElsewhere(loop, network, attachment).close


class _GatewayElsewhere:
    """Serves a sandbox until it is closed. Everything here happens on the loop's thread."""

    def __init__(self, loop: Loop, network: NetworkAccess, attachment: ServedElsewhere) -> None:
        self._loop, self._ledger, self._attachment = loop, network.ledger, attachment
        told, audit = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._told = open(told, "rb", buffering=0)  # noqa: PTH123, SIM115 - a pipe, until we are closed
        self._partial = b""
        try:
            attachment.open(ResolvedPolicy.of(network.policy), network.settings, audit=audit)
        except BaseException:
            self._told.close()
            raise
        finally:
            os.close(audit)
        loop.watch(self._told).on_readable = self._read
        if network.ledger.audit is not None:
            loop.spawn(keep_flushed(loop, network.ledger.audit))

    def close(self) -> None:
        """Have nobody answer any more, and note what was told last."""
        self._attachment.close()
        self._read()
        self._loop.unwatch(self._told)
        self._told.close()

    def _read(self) -> None:
        """Note all that was told since the last time."""
        while data := self._told.read(_READ_BYTES):
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                if (event := read_event(line)) is not None:
                    self._ledger.write("local", event)
        if data is not None:  # nobody is left who could tell anything
            self._loop.unwatch(self._told)
