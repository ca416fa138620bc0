"""A name server on loopback that the loop under test runs itself: it keeps what it is asked, and follows a script."""

import errno
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream
from belljar.gateway.upstream.hostfiles import Server
from belljar.names import parse_address
from belljar.wire.dns.framing import frame


class Asked(NamedTuple):
    """A question as it arrived."""

    transport: str
    query: dns.message.Message
    peer: tuple[str, int]

    @property
    def name(self) -> str:
        return self.query.question[0].name.to_text(omit_final_dot=True)

    @property
    def kind(self) -> str:
        return self.query.question[0].rdtype.name


Script = Callable[[Asked], Iterable[bytes]]
"""What to send for a question: any number of datagrams, or pieces of a stream."""


def answer(asked: Asked, *records: str, rcode=dns.rcode.NOERROR, authority: Iterable[str] = ()) -> bytes:
    """Answer with records such as "60 A 192.0.2.7", which belong to the name asked for."""
    response = dns.message.make_response(asked.query, recursion_available=True)
    response.set_rcode(rcode)
    response.answer = [_rrset(asked.name, record) for record in records]
    response.authority = [_rrset(asked.name, record) for record in authority]
    return response.to_wire(max_size=65535)


def truncated(asked: Asked) -> bytes:
    response = dns.message.make_response(asked.query)
    response.flags |= dns.flags.TC
    return response.to_wire()


def soa(seconds: int) -> str:
    return f"{seconds} SOA ns.example. admin.example. 1 2 3 4 {seconds}"


def _rrset(name: str, record: str) -> dns.rrset.RRset:
    ttl, kind, data = record.split(maxsplit=2)
    return dns.rrset.from_text(f"{name}.", int(ttl), "IN", kind, data)


def silence(_: Asked) -> list[bytes]:
    return []


class Zone:
    """A script that knows names: {"www.example.org": ["60 A 192.0.2.7"]}."""

    def __init__(self, names: dict[str, list[str]], *, seconds_absent: int = 10) -> None:
        self.names = names
        self._authority = [soa(seconds_absent)]

    def __call__(self, asked: Asked) -> list[bytes]:
        if asked.name.lower() not in self.names:
            return [answer(asked, rcode=dns.rcode.NXDOMAIN, authority=self._authority)]
        records = [record for record in self.names[asked.name.lower()] if record.split()[1] == asked.kind]
        return [answer(asked, *records, authority=() if records else self._authority)]


class NameServer:
    """Listens on one port, for UDP and TCP."""

    def __init__(self, loop: Loop, address: str = "127.0.0.1") -> None:
        self._loop = loop
        self.udp, self.tcp = _bind_both(address)
        self.server = Server(parse_address(address), self.udp.getsockname()[1])
        self.seen: list[Asked] = []
        self.script: Script = silence
        self.tcp_script: Script | None = None
        """What to send over TCP instead, with the lengths in front or without."""

        self.hangs_up = True
        """Whether a connection is closed after an answer, or kept until the other side has closed it."""

        self._streams: list[Stream] = []
        loop.watch(self.udp).on_readable = self._on_datagram
        self._tcp_watch = loop.watch(self.tcp)
        self._tcp_watch.on_readable = self._on_connection

    def asked(self, transport: str = "udp") -> list[str]:
        """Return which types were asked for, in their order."""
        return [asked.kind for asked in self.seen if asked.transport == transport]

    def stop_tcp(self) -> None:
        """Refuse connections, and keep the port from being taken by others."""
        self._tcp_watch.on_readable = None
        self.tcp.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        for listening in (self.udp, self.tcp):
            self._loop.unwatch(listening)
            listening.close()

    def _on_datagram(self) -> None:
        while True:
            try:
                data, peer = self.udp.recvfrom(65535)
            except BlockingIOError:
                return
            for reply in self._reply("udp", data, peer, self.script):
                self.udp.sendto(reply, peer)

    def _on_connection(self) -> None:
        while True:
            try:
                connection, peer = self.tcp.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            self._streams.append(Stream(self._loop, connection))
            self._loop.spawn(self._serve(self._streams[-1], peer))

    async def _serve(self, stream: Stream, peer: tuple[str, int]) -> None:
        """Answer one question, to a client that may leave at any time."""
        with suppress(ConnectionError):
            length = int.from_bytes(await _read_exactly(stream, 2), "big")
            query = await _read_exactly(stream, length)
            for piece in self._reply("tcp", query, peer, self.tcp_script or self._framed):
                await stream.write(piece)
            if not self.hangs_up:
                await stream.read()
        self._streams.remove(stream)
        stream.close()

    def _framed(self, asked: Asked) -> list[bytes]:
        return [frame(message) for message in self.script(asked)]

    def _reply(self, transport: str, data: bytes, peer: tuple[str, int], script: Script) -> Iterable[bytes]:
        asked = Asked(transport, dns.message.from_wire(data), peer[:2])
        self.seen.append(asked)
        return script(asked)


async def _read_exactly(stream: Stream, size: int) -> bytes:
    received = b""
    while len(received) < size:
        if not (more := await stream.read(size - len(received))):
            raise ConnectionAbortedError
        received += more
    return received


def _bind_both(address: str) -> tuple[socket.socket, socket.socket]:
    """Bind two sockets to one port, whichever is free for both."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    while True:
        udp = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        tcp = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            udp.bind((address, 0))
            tcp.bind((address, udp.getsockname()[1]))
        except OSError as error:
            udp.close()
            tcp.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            tcp.listen()
            return udp, tcp
