"""Another sandbox on the same machine: what it serves (`nextdoor`) is reached by itself alone."""

import socket
from collections.abc import Callable
from functools import partial

from belljar.verify.probes import places
from belljar.verify.probes.host.kernel import NAMESPACES, none_shared
from belljar.verify.probes.kit import Finding, Mark, control, inside, network
from belljar.verify.probes.network.clients import (
    Action,
    ask,
    ask_proxy,
    ask_socks,
    bracketed,
    loopback,
    reached,
    refused,
    send,
)


@control("neighbour", "servers in another sandbox, from inside of that one", next_door=True)
def neighbour(mark: Mark) -> Finding:
    findings = [reached(action) for action in [*_by_address(mark), lambda: _ask_unix(mark)]]
    return next((finding for finding in findings if not finding.holds), findings[0])


@network(60, "servers", "servers in another sandbox, directly and through the proxies", beside="neighbour")
def servers(mark: Mark) -> Finding:
    line, port = _line(mark), places.NEIGHBOUR_PORT
    return refused(
        *_by_address(mark),
        *(partial(ask_socks, mark, address, port, line) for address in _addresses(mark)),
        *(partial(ask_proxy, mark, f"{bracketed(address)}:{port}", line) for address in _addresses(mark)),
    )


@inside(60, "unix-sockets", "unix sockets of another sandbox", beside="control-neighbour-v4")
def unix_sockets(mark: Mark) -> Finding:
    return refused(lambda: _ask_unix(mark))


@inside(60, "namespaces", "namespaces that are shared with another sandbox", beside="control-neighbour-v4")
def namespaces(mark: Mark) -> Finding:
    return none_shared(NAMESPACES, {kind: [theirs] for kind, theirs in mark.scene.neighbour.items()})


def _line(mark: Mark) -> bytes:
    return f"{mark.token}\n".encode()


def _addresses(mark: Mark) -> tuple[str, str]:
    return loopback(mark.family), places.OWN[mark.family]


def _by_address(mark: Mark) -> list[Action]:
    ways: tuple[Callable[[str, int, bytes], bytes], ...] = (ask, send)
    return [partial(way, address, places.NEIGHBOUR_PORT, _line(mark)) for address in _addresses(mark) for way in ways]


def _ask_unix(mark: Mark) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.connect(places.NEIGHBOUR_SOCKET)
        sock.sendall(_line(mark))
        return sock.recv(4096)
