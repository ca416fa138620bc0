"""One UDP flow: a client in the sandbox, the destination it asked for, and a socket that leads there.

The flow is settled as a TCP connection's is (`dialing`): its name is resolved, every address checked, and the policy
asked again. Datagrams wait meanwhile. The socket is connected to a checked address, so that the kernel takes answers
from there alone, and the policy of that moment has the last word before anything is sent. The address is of the family
that the client chose, if there is one: a client that tries both is not deceived.

Nobody tells when a flow is over. It ends when nothing has passed for some time, and sooner if nothing ever came back.
"""

import errno
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from belljar.gateway.audit.events import Ending
from belljar.gateway.flows import Carried, DeniedError, LiveFlow
from belljar.gateway.io.origin import Endpoint
from belljar.gateway.sandbox import SandboxState
from belljar.policy import Verdict
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


class UdpFlow(LiveFlow):
    """A flow that the policy has allowed, from its first datagram on."""

    __slots__ = (
        "_answers", "_asked", "_bytes_down", "_bytes_up", "_client", "_last", "_opening", "_timer", "_trouble",
        "_upstream", "_waiting", "on_denial", "on_end",
    )  # fmt: skip

    def __init__(
        self, sandbox: SandboxState, client: Endpoint, asked: Endpoint, verdict: Verdict, answers: Answers
    ) -> None:
        super().__init__(sandbox, verdict)
        self._client, self._asked, self._answers = client, asked, answers
        self._last = self.started
        self._waiting: list[bytes] = []
        self._upstream: socket.socket | None = None
        self._bytes_up = self._bytes_down = 0
        self._trouble: str | None = None
        """What was heard last of datagrams that did not arrive."""
        self.on_end: Callable[[], None] = _nothing
        self.on_denial: Callable[[Verdict], None] = sandbox.observer.flow_denied
        """Has a denial on record; not every one has to be, of a client that does not give up."""
        self._opening = sandbox.loop.spawn(self._open())
        self._timer = sandbox.loop.call_later(UNANSWERED_SECONDS, self._look_at_clock)

    def send(self, data: bytes) -> None:
        """Pass a datagram on, now or when the flow is settled."""
        if self._upstream is None:
            self._wait(data)
            return
        self._last = self.sandbox.loop.clock()
        try:
            self._upstream.send(data)
        except BlockingIOError:
            pass  # there is no room, and datagrams may be lost
        except OSError as error:
            self._note(error)
        else:
            self._bytes_up += len(data)

    def _wait(self, data: bytes) -> None:
        sandbox, size = self.sandbox, _size_in_memory(data)
        if sandbox.udp_waiting_bytes + size > sandbox.limits.udp_waiting_bytes:
            sandbox.refuse("udp_waiting_bytes")
            return
        sandbox.udp_waiting_bytes += size
        self._waiting.append(data)

    def _stop_waiting(self) -> list[bytes]:
        waiting, self._waiting = self._waiting, []
        self.sandbox.udp_waiting_bytes -= sum(map(_size_in_memory, waiting))
        return waiting

    async def _open(self) -> None:
        """Connect a socket, and let what waits pass, if the flow is still allowed."""
        sandbox = self.sandbox
        try:
            with sandbox.loop.timeout(sandbox.limits.dial_seconds):
                upstream = await sandbox.dialler.open_datagram_socket(self, self._asked.address.version)
        except DeniedError as denied:
            self._deny(denied.verdict, "denied")
            return
        except OSError as error:
            self.failure = str(error) or "it took too long"
            self.end("failed")
            self._answers.refuse(self._asked, self._client)
            return
        if self.ended:
            upstream.close()
            return
        self._upstream = upstream
        sandbox.loop.watch(upstream).on_readable = self._receive
        self.tell_allowed()
        for data in self._stop_waiting():
            self.send(data)

    def _receive(self) -> None:
        loop = self.sandbox.loop
        if self.ended or self._upstream is None:
            return
        for _ in range(_BATCH):
            if loop.clock() >= loop.slice_ends:
                break
            try:
                data = self._upstream.recv(MAX_DATAGRAM)
            except BlockingIOError:
                return
            except OSError as error:
                self._note(error)
            else:
                self._last = loop.clock()
                self._bytes_down += len(data)
                self._answers.send(self._asked, self._client, data)
        loop.call_soon(self._receive)

    def _note(self, error: OSError) -> None:
        """Pass bad news on (an ICMP error, most often). It may be about one datagram only, so the flow goes on."""
        self._trouble = str(error)
        if error.errno != errno.EMSGSIZE:
            self._answers.refuse(self._asked, self._client)

    def _look_at_clock(self) -> None:
        loop = self.sandbox.loop
        left = self._last + (ANSWERED_SECONDS if self._bytes_down else UNANSWERED_SECONDS) - loop.clock()
        if left > 0:
            self._timer = loop.call_later(left, self._look_at_clock)
        elif self._trouble is not None and not self._bytes_down:
            self.failure = self._trouble
            self.end("failed")
        else:
            self.end("closed")

    def tell_denied(self, verdict: Verdict) -> None:
        """Have it on record that the flow is denied."""
        self.on_denial(verdict)

    def cut(self, verdict: Verdict) -> None:
        """End the flow because a new policy denies it."""
        self._deny(verdict, "cut")

    def _deny(self, verdict: Verdict, how: Ending) -> None:
        try:
            self.tell_denied(verdict)
        finally:
            self.end(how)
            self._answers.refuse(self._asked, self._client)

    def _release(self, how: Ending) -> None:  # noqa: ARG002
        self._stop_waiting()
        self._timer.cancel()
        self._opening.cancel()
        if self._upstream is not None:
            self.sandbox.loop.unwatch(self._upstream)
            self._upstream.close()
        self.on_end()

    def carried(self) -> Carried:
        """Return how many bytes have passed."""
        return Carried(self._bytes_up, self._bytes_down)


def _size_in_memory(data: bytes) -> int:
    return len(data) + _OVERHEAD


def _nothing() -> None:
    pass
