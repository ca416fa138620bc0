"""The witness: every host in the world outside of the sandbox, and a memory of who turned up.

It answers every connection, every datagram and every question, whatever the destination, so that what gets out
succeeds. And it captures packets, so that nothing gets out unnoticed, be it to where nobody answers.
"""

import selectors
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from belljar.gateway.io.origin import original_destination, own_address
from belljar.linux.namespaces import NetworkNamespace
from belljar.linux.transparent import make_transparent
from belljar.testing.internet.capture import Capture
from belljar.verify.internet.conversation import Conversation
from belljar.verify.internet.world import DATAGRAMS_TO, STREAMS_TO, World
from belljar.verify.internet.zone import Zone
from belljar.verify.probes import places
from belljar.verify.trial import hear
from belljar.wire.dns.question import RefusedQuery, parse_query

_READ_BYTES: Final = 65536


class SightingKind(Enum):
    """What it was that reached the witness."""

    PACKET = auto()
    STREAM = auto()
    """All that was said on a connection."""

    QUESTION = auto()
    """To the nameserver."""

    UNIX = auto()
    """A connection to a unix socket of the host."""


class Sighting(NamedTuple):
    """Something that reached the witness."""

    kind: SightingKind
    what: str
    """In words."""

    address: str = ""
    """Where it arrived, if it is a packet or a connection."""

    port: int = 0
    data: bytes = b""


class Witness:
    """Answers, and remembers."""

    def __init__(self, world: World, run: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._zone = Zone()
        self._seen: list[Sighting] = []
        self._conversations: list[Conversation] = []
        self._keys = {places.BROKER_PORT: places.broker_key(run).encode()}
        internet, host = world.internet, world.host
        self._captures = (internet.run(Capture), host.run(partial(Capture, "lo")))
        for capture in self._captures:
            self._watch(capture.socket, partial(self._read_packets, capture))
        self._listen(internet, STREAMS_TO)
        self._listen(host, places.HOST_PORT)
        self._listen(host, places.OTHER_HOST_PORT)
        self._listen(host, places.BROKER_PORT)
        for family, address in places.RESOLVER.items():
            server = internet.run(partial(_bound, family, address, places.DNS))
            self._watch(server, partial(self._answer_question, server))
            echo = internet.run(partial(_bound, family, "", DATAGRAMS_TO))
            self._watch(echo, partial(self._answer_datagram, echo))
        for unix in (
            host.run(partial(_abstract_listener, places.ABSTRACT_SOCKET)),
            _abstract_listener(places.MACHINES_SOCKET.format(run=run)),
        ):
            self._watch(unix, partial(self._note_unix_connection, unix))

    def attend(self, report: socket.socket, on_report: Callable[[bytes], None] | None = None) -> bytes:
        """Answer everything that arrives until a report ends; return the report.

        `on_report` is called with the report so far, after each part of it that arrives.
        """
        parts: list[bytes] = []

        def listen() -> None:
            parts.append(hear(report))
            if not parts[-1]:
                self._selector.unregister(report)
            elif on_report is not None:
                on_report(b"".join(parts))

        self._watch(report, listen)
        while not parts or parts[-1]:
            self._serve(self._selector.select())
        while ready := self._selector.select(0):  # what was on its way when the reporter ended
            self._serve(ready)
        return b"".join(parts)

    def _serve(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, _ in ready:
            key.data()

    def testimony(self) -> list[Sighting]:
        """Return everything that was seen."""
        for capture in self._captures:
            self._read_packets(capture)
        return [*self._seen, *self._said()]

    def lost(self) -> int:
        """Return how many packets went by unseen."""
        return sum(capture.lost() for capture in self._captures)

    def close(self) -> None:
        """Hang up on everybody."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()

    def _said(self) -> Iterator[Sighting]:
        for said in self._conversations:
            what = f"connection to {said.address} port {said.port}, {len(said.received)} bytes"
            yield Sighting(SightingKind.STREAM, what, said.address, said.port, bytes(said.received))

    def _watch(self, sock: socket.socket, on_readable: Callable[[], None]) -> None:
        self._selector.register(sock, selectors.EVENT_READ, on_readable)

    def _listen(self, namespace: NetworkNamespace, port: int) -> None:
        for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 - leads nowhere
            listener = namespace.run(partial(socket.create_server, (address, port), family=family, backlog=512))
            make_transparent(listener)  # to answer from addresses that are the host's own by a rule alone
            listener.settimeout(0)
            self._watch(listener, partial(self._accept, listener))

    def _read_packets(self, capture: Capture) -> None:
        self._seen += (Sighting(SightingKind.PACKET, str(p), p.address, p.port, p.data) for p in capture.read())

    def _accept(self, listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        accepted.settimeout(0)
        try:
            destination = original_destination(accepted)
        except OSError:  # the host's own services are not redirected
            destination = own_address(accepted)
        port = destination.port
        conversation = Conversation(str(destination.address), port, self._keys.get(own_address(accepted).port, b""))
        self._conversations.append(conversation)
        self._send(accepted, conversation.greeting())
        self._watch(accepted, partial(self._converse, accepted, conversation))

    def _converse(self, accepted: socket.socket, conversation: Conversation) -> None:
        try:
            data = accepted.recv(_READ_BYTES)
        except OSError:
            data = b""
        self._send(accepted, conversation.hear(data))
        if not data:
            self._selector.unregister(accepted)
            accepted.close()

    def _answer_question(self, server: socket.socket) -> None:
        message, client = server.recvfrom(_READ_BYTES)
        query = parse_query(message)
        if not isinstance(query, RefusedQuery):
            name = query.qname.lower()
            self._seen.append(Sighting(SightingKind.QUESTION, f"question for {name}", data=name.encode()))
            with suppress(OSError):
                server.sendto(self._zone.answer(query).datagram(), client)

    def _answer_datagram(self, echo: socket.socket) -> None:
        data, client = echo.recvfrom(_READ_BYTES)
        with suppress(OSError):
            echo.sendto(places.MARKER.encode() + b" " + data, client)

    def _note_unix_connection(self, listener: socket.socket) -> None:
        listener.accept()[0].close()
        self._seen.append(Sighting(SightingKind.UNIX, "connection to a unix socket of the host"))

    @staticmethod
    def _send(sock: socket.socket, data: bytes) -> None:
        with suppress(OSError):
            sock.sendall(data)


def _bound(family: int, address: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    if family == 6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.bind((address, port))
    return sock


def _abstract_listener(name: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(name)
    sock.listen()
    return sock
