"""What runs in the other sandbox: servers that answer whoever reaches them, and tell who did."""

import json
import os
import selectors
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from belljar.verify.probes import places
from belljar.verify.probes.host.kernel import NAMESPACES, namespace

_ANSWER: Final = f"{places.MARKER} neighbour {places.NEIGHBOUR_PORT}\n.\n".encode()
_READ_BYTES: Final = 65536


def serve(try_it: Callable[[], None]) -> None:
    """Serve until the standard input ends, and have it tried out in a process of its own."""
    with selectors.DefaultSelector() as selector:
        for listener in _listeners():
            selector.register(listener, selectors.EVENT_READ, partial(_accept, selector, listener))
        for receiver in _receivers():
            selector.register(receiver, selectors.EVENT_READ, partial(_answer_datagram, receiver))
        _tell({"neighbour": {kind: namespace(kind) for kind in NAMESPACES}})
        trying = os.fork()
        if trying == 0:
            try_it()
            os._exit(0)
        selector.register(sys.stdin, selectors.EVENT_READ)
        while _serve_once(selector):
            pass
    os.waitpid(trying, 0)


def _listeners() -> Iterator[socket.socket]:
    for family in (socket.AF_INET, socket.AF_INET6):
        yield socket.create_server(("", places.NEIGHBOUR_PORT), family=family)
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unix.bind(places.NEIGHBOUR_SOCKET)
    unix.listen()
    yield unix


def _receivers() -> Iterator[socket.socket]:
    for family in (socket.AF_INET, socket.AF_INET6):
        receiver = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        receiver.bind(("", places.NEIGHBOUR_PORT))
        yield receiver


def _serve_once(selector: selectors.BaseSelector) -> bool:
    """Do what is to be done; tell whether there may be more."""
    for key, _ in selector.select():
        if key.data is None:
            return False
        key.data()
    return True


def _accept(selector: selectors.BaseSelector, listener: socket.socket) -> None:
    accepted, _ = listener.accept()
    selector.register(accepted, selectors.EVENT_READ, partial(_answer, selector, accepted))


def _answer(selector: selectors.BaseSelector, accepted: socket.socket) -> None:
    selector.unregister(accepted)
    with accepted:
        data = accepted.recv(_READ_BYTES)
        _tell({"seen": "a connection to a server in another sandbox", "data": data.decode("latin-1")})
        accepted.sendall(_ANSWER)


def _answer_datagram(receiver: socket.socket) -> None:
    data, client = receiver.recvfrom(_READ_BYTES)
    _tell({"seen": "a datagram to a server in another sandbox", "data": data.decode("latin-1")})
    receiver.sendto(_ANSWER, client)


def _tell(what: dict[str, Any]) -> None:
    print(json.dumps(what), flush=True)  # noqa: T201 - that is how it reports
