"""Hosts: a place where every address that arrives is answered, by an event loop that offers every service."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from ipaddress import IPv4Address, IPv6Address

from belljar.linux.transparent import make_transparent
from tests.universe import addresses, proxy, services, web
from tests.universe.certificates import Certificates
from tests.universe.nameserver import Nameserver
from tests.universe.places import Place
from tests.universe.services import Call, Service
from tests.universe.witness import Seen, Witness
from tests.universe.zone import Entry

_IP_PKTINFO = 8

SERVICES: dict[int, Service] = {
    addresses.ECHO: services.echo,
    addresses.DATABASE: services.echo,
    addresses.DISCARD: services.discard,
    addresses.STREAM: services.stream,
    addresses.SSH: services.ssh,
    addresses.RESET: services.reset,
    addresses.SILENT: services.silent,
    addresses.HTTP: web.http,
}
"""What every host offers over TCP, beside HTTPS, DNS and proxies. Over UDP it is an echo and DNS."""

Answers = Callable[[bytes, str, int], list[bytes]]
"""Takes a datagram, and the address and port it came to; returns datagrams to send back."""


class Hosts(Place):
    """A place with every service on every address it has, and a witness of who called."""

    def __init__(self, name: str, certificates: Certificates, zone: Mapping[str, Entry]) -> None:
        super().__init__(name)
        self.witness = Witness()
        nameserver = Nameserver(zone, self.witness)
        self._tcp = SERVICES | {addresses.HTTPS: web.https(certificates), addresses.DNS: nameserver.call}
        self._tcp |= {
            addresses.PROXY: proxy.tunnels(zone),
            addresses.PROXY_WITH_PASSWORD: proxy.tunnels(zone, credentials=addresses.PROXY_CREDENTIALS),
            addresses.PROXY_FOR_NAMES: proxy.tunnels(zone, names_only=True),
        }
        self._udp: dict[int, Answers] = {
            addresses.DNS: nameserver.datagram,
            addresses.ECHO: self._echo,
            addresses.HTTPS: self._echo,
        }
        self._stop: Callable[[], object] = lambda: None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def seen(self) -> list[Seen]:
        """Everything that reached a service here, in its order."""
        return self.witness.seen

    def open(self) -> None:
        """Begin to answer."""
        ready: Future[None] = Future()
        serving = self.start(lambda: asyncio.run(self._serve(ready)))
        wait([ready, serving], return_when=FIRST_COMPLETED)
        if serving.done():
            serving.result()

    def forget(self) -> None:
        """Have the witness start with a clean sheet, once it has seen whoever has arrived by now."""
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(_some_turns(), self._loop).result()
        self.witness.forget()

    def close(self) -> None:
        """Hang up on everybody."""
        self._stop()
        super().close()

    async def _serve(self, ready: Future[None]) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop = loop
        self._stop = lambda: loop.call_soon_threadsafe(stop.set)
        with contextlib.ExitStack() as stack:
            for port, service in self._tcp.items():
                server = await asyncio.start_server(self._answering(service), ["0.0.0.0", "::"], port, backlog=1024)
                stack.callback(server.close)
            for port, answers in self._udp.items():
                for family in (socket.AF_INET, socket.AF_INET6):
                    sock = stack.enter_context(_datagram_socket(family, port))
                    loop.add_reader(sock, self._datagrams, sock, answers)
                    stack.callback(loop.remove_reader, sock)
            ready.set_result(None)
            await stop.wait()

    def _answering(self, service: Service):
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            call = Call(reader, writer, self.witness)
            call.record("connection")
            try:
                await service(call)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                pass  # callers leave when they like, and some talk nonsense
            finally:
                writer.close()

        return answer

    def _datagrams(self, sock: socket.socket, answers: Answers) -> None:
        data, ancillary, _, peer = sock.recvmsg(65536, 64)
        [(_, _, info)] = ancillary
        address = _destination(sock, info)
        port = sock.getsockname()[1]
        self.witness.record(Seen("datagram", address, port))
        with contextlib.suppress(OSError):
            for answer in answers(data, address, port):
                # The ancillary data goes back as it came: the answer leaves from the address that was asked.
                sock.sendmsg([answer], ancillary, 0, peer)

    def _echo(self, data: bytes, _: str, __: int) -> list[bytes]:
        return [data]


def _datagram_socket(family: int, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    make_transparent(sock)
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    sock.bind(("", port))
    sock.setblocking(False)
    return sock


def _destination(sock: socket.socket, info: bytes) -> str:
    if sock.family == socket.AF_INET:
        return str(IPv4Address(struct.unpack_from("=i4s4s", info)[2]))
    return str(IPv6Address(info[:16]))


async def _some_turns() -> None:
    """Let an event loop accept who waits, and begin to serve them."""
    for _ in range(5):
        await asyncio.sleep(0)
