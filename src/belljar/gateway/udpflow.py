"""One UDP flow: a client in the sandbox, the destination it asked for, and a socket that leads there.

The flow is settled as a TCP connection's is: its name is resolved, every address checked, and the policy asked again.
Datagrams wait meanwhile. The socket is then connected to a checked address, so that the kernel takes answers from there
alone, and the policy of that moment has the last word before anything is sent. The address is of the family that the
client chose, if there is one: a client that tries both is not deceived.

Nobody tells when a flow is over. It ends when nothing has passed for some time, and sooner if nothing ever came back.
"""

import errno
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from belljar.gateway.accounts import Account
from belljar.gateway.dialing import DeniedError
from belljar.gateway.door import Door
from belljar.gateway.events import Ending
from belljar.gateway.jar import Carried
from belljar.gateway.origin import Endpoint
from belljar.names import Address
from belljar.policy import Flow, Verdict
from belljar.wire.packets import MAX_DATA, port_unreachable_packet, udp_packet

ANSWERED_SECONDS: Final = 120.0
"""How long a flow may be idle; what is asked of a NAT, too (RFC 4787, 4.3)."""

UNANSWERED_SECONDS: Final = 30.0
"""The same for one that nothing ever came back on."""

_BATCH: Final = 32  # datagrams that are passed on before the sandbox's other flows get a turn
MAX_DATAGRAM: Final = 65535

_OVERHEAD: Final = 64  # of an object in memory: empty datagrams are not for free


class Answers:
    """What clients in the sandbox receive: datagrams and errors, from the addresses they asked."""

    def __init__(self, raw_sockets: Iterable[socket.socket]) -> None:
        self._sockets = {4 if raw.family == socket.AF_INET else 6: raw for raw in raw_sockets}

    def send(self, asked: Endpoint, client: Endpoint, data: bytes) -> None:
        """Answer a client; what its kernel has no room for is lost, as datagrams are."""
        if len(data) <= MAX_DATA:
            self._send(client, udp_packet(asked, client, data))

    def refuse(self, asked: Endpoint, client: Endpoint) -> None:
        """Tell a client that nobody takes what it sent; with a connected socket, it has ECONNREFUSED."""
        self._send(client, port_unreachable_packet(client, asked))

    def _send(self, client: Endpoint, packet: bytes) -> None:
        with suppress(OSError):
            self._sockets[client.address.version].sendto(packet, (str(client.address), 0))


class UdpFlow:
    """A flow that the policy has allowed, from its first datagram on."""

    def __init__(self, door: Door, client: Endpoint, asked: Endpoint, flow: Flow, answers: Answers) -> None:
        self._door, self._client, self._asked, self._answers = door, client, asked, answers
        self._last = door.loop.clock()
        self._account = Account(
            door, flow, lambda verdict: self._deny(verdict, "cut"), lambda: self.end("cut"), self._carried
        )
        self._waiting: list[bytes] = []
        self._upstream: socket.socket | None = None
        self._bytes_up = self._bytes_down = 0
        self._error: str | None = None
        self._ended = False
        self.on_end: Callable[[], None] = _nothing
        self.on_denial: Callable[[Verdict], None] = _ignore
        self._opening = door.loop.spawn(self._open())
        self._timer = door.loop.call_later(UNANSWERED_SECONDS, self._look_at_clock)

    def send(self, data: bytes) -> None:
        """Pass a datagram on, now or when the flow is settled."""
        if self._upstream is None:
            self._wait(data)
            return
        self._last = self._door.loop.clock()
        try:
            self._upstream.send(data)
        except BlockingIOError:
            pass  # there is no room, and datagrams may be lost
        except OSError as error:
            self._note(error)
        else:
            self._bytes_up += len(data)

    def _wait(self, data: bytes) -> None:
        jar, size = self._door.jar, _size_in_memory(data)
        if jar.udp_waiting_bytes + size > jar.limits.udp_waiting_bytes:
            jar.observer.limit_reached("udp_waiting_bytes")
            return
        jar.udp_waiting_bytes += size
        self._waiting.append(data)

    def _stop_waiting(self) -> list[bytes]:
        waiting, self._waiting = self._waiting, []
        self._door.jar.udp_waiting_bytes -= sum(map(_size_in_memory, waiting))
        return waiting

    async def _open(self) -> None:
        jar, dialler = self._door.jar, self._door.dialler
        try:
            with self._door.loop.timeout(jar.limits.dial_seconds):
                flow, addresses = await dialler.addresses_for_datagrams(jar, self._account.flow)
            self._connect(flow, addresses)
        except DeniedError as denied:
            self._deny(denied.verdict, "denied")
        except OSError as error:
            self._error = str(error) or "it took too long"
            self.end("failed")
            self._answers.refuse(self._asked, self._client)

    def _connect(self, flow: Flow, addresses: Sequence[Address]) -> None:
        """Connect a socket, and let what waits pass, if the flow is still allowed. Raises DeniedError and OSError."""
        if self._ended:
            return
        own_family = self._asked.address.version
        nearest_first = sorted(addresses, key=lambda address: address.version != own_family)
        upstream = self._upstream = _connected(nearest_first, self._asked.port)
        # By the policy of now, and where the address leads now: both may be others than before.
        self._account.update(self._door.dialler.as_connected(flow, upstream))
        self._door.loop.watch(upstream).on_readable = self._receive
        self._account.tell_allowed()
        for data in self._stop_waiting():
            self.send(data)

    def _receive(self) -> None:
        if self._ended or self._upstream is None:
            return
        for _ in range(_BATCH):
            if self._door.loop.clock() >= self._door.loop.slice_ends:
                break
            try:
                data = self._upstream.recv(MAX_DATAGRAM)
            except BlockingIOError:
                return
            except OSError as error:
                self._note(error)
            else:
                self._last = self._door.loop.clock()
                self._bytes_down += len(data)
                self._answers.send(self._asked, self._client, data)
        self._door.loop.call_soon(self._receive)

    def _note(self, error: OSError) -> None:
        """Pass bad news on (an ICMP error, most often). It may be about one datagram only, so the flow goes on."""
        self._error = str(error)
        if error.errno != errno.EMSGSIZE:
            self._answers.refuse(self._asked, self._client)

    def _look_at_clock(self) -> None:
        patience = ANSWERED_SECONDS if self._bytes_down else UNANSWERED_SECONDS
        left = self._last + patience - self._door.loop.clock()
        if left > 0:
            self._timer = self._door.loop.call_later(left, self._look_at_clock)
        else:
            self.end("failed" if self._error is not None and not self._bytes_down else "closed")

    def _deny(self, verdict: Verdict, how: Ending) -> None:
        """End the flow because more is known about it now, or because a new policy denies it."""
        self.on_denial(verdict)
        self.end(how)
        self._answers.refuse(self._asked, self._client)

    def end(self, how: Ending) -> None:
        """Release everything, once."""
        if self._ended:
            return
        self._ended = True
        self._account.leave()
        self._stop_waiting()
        self._timer.cancel()
        self._opening.cancel()
        if self._upstream is not None:
            self._door.loop.unwatch(self._upstream)
            self._upstream.close()
        self._account.tell_closed(how, self._carried(), self._error if how == "failed" else None)
        self.on_end()

    def _carried(self) -> Carried:
        return Carried(self._bytes_up, self._bytes_down)


def _connected(addresses: Sequence[Address], port: int) -> socket.socket:
    """Return a socket that is connected to the first address that there is a way to. Raises OSError."""
    trouble = OSError("the name has no addresses")
    for address in addresses:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        connected = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            connected.connect((str(address), port))
        except OSError as error:
            connected.close()
            trouble = error
        else:
            return connected
    raise trouble


def _size_in_memory(data: bytes) -> int:
    return len(data) + _OVERHEAD


def _nothing() -> None:
    pass


def _ignore(_verdict: Verdict) -> None:
    pass
