"""UDP out of the sandbox: whom does each datagram want, and may it?

Theory of operation
-------------------
The kernel inside the sandbox diverts every datagram to our listener, with the destination it was sent to. The first
one from a client to a destination is decided, by name if the address is a virtual one, and becomes a flow (`flow`);
those that follow belong to it. A change of policy cuts the flows that it denies, and what comes then is decided anew.

Answers leave through a raw socket that was made in the sandbox's network, as whole packets from the address that was
asked. That takes no socket for each destination, and an agent that has bound the same port cannot be in the way.

What is denied is refused with an ICMP error, as the sandbox's own packet filter does where it lets no UDP out: the
client learns it at once. A client that goes on regardless is told of once in a while only.
"""

import socket
from collections.abc import Iterable
from functools import partial
from ipaddress import ip_address
from typing import Final

from belljar.gateway.io.loop import Task
from belljar.gateway.io.origin import Endpoint, own_address
from belljar.gateway.sandbox import SandboxState
from belljar.gateway.udp.flow import MAX_DATAGRAM, Answers, UdpFlow
from belljar.linux import transparent
from belljar.policy import Protocol, Verdict

REPEAT_SECONDS: Final = 10.0
"""How long a denial is not told again for the same client and destination."""

_DESCRIPTORS_PER_FLOW: Final = 2  # for questions to a name server, and then for the flow itself
_PAUSE_SECONDS: Final = 0.05

_Pair = tuple[Endpoint, Endpoint]


class UdpService:
    """Serves the UDP of one sandbox."""

    def __init__(self, sandbox: SandboxState, answers: Answers) -> None:
        self._sandbox, self._answers = sandbox, answers
        self._flows: dict[_Pair, UdpFlow] = {}
        self._told: dict[tuple[_Pair, str], float] = {}
        """When each denial was told last."""
        self._tasks: list[Task] = []
        self._listeners: list[socket.socket] = []

    def serve(self, listeners: Iterable[socket.socket]) -> None:
        """Begin to take datagrams from listeners, which stay the caller's."""
        for listener in listeners:
            self._listeners.append(listener)
            self._tasks.append(self._sandbox.loop.spawn(self._take_for_ever(listener)))

    def close(self) -> None:
        """Take no more; do so before the listeners are closed. Flows end with the others of the sandbox."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            self._sandbox.loop.unwatch(listener)

    async def _take_for_ever(self, listener: socket.socket) -> None:
        loop = self._sandbox.loop
        watch, itself = loop.watch(listener), own_address(listener)
        while True:
            try:
                data, ancillary, _, peer = listener.recvmsg(MAX_DATAGRAM, transparent.ANCILLARY_BYTES)
                asked = Endpoint(*transparent.destination(ancillary))
                if asked == itself:
                    self._sandbox.observer.limit_reached("direct_dial")
                else:
                    self._take(Endpoint(ip_address(peer[0]), peer[1]), asked, data)
                if loop.clock() >= loop.slice_ends:
                    await loop.give_way()
            except BlockingIOError:
                await loop.readable(watch)
            except OSError:  # the kernel has no memory to spare, say
                await loop.sleep(_PAUSE_SECONDS)
            except Exception as error:  # noqa: BLE001 - a bug that one datagram meets is not the end of the others
                self._sandbox.observer.bug_found(error)

    def _take(self, client: Endpoint, asked: Endpoint, data: bytes) -> None:
        flow = self._flows.get((client, asked)) or self._begin(client, asked)
        if flow is not None:
            flow.send(data)

    def _begin(self, client: Endpoint, asked: Endpoint) -> UdpFlow | None:
        sandbox, pair = self._sandbox, (client, asked)
        verdict = sandbox.decide(sandbox.flow_to(*asked, Protocol.UDP))
        if not verdict.allowed:
            self._tell(pair, verdict)
        if not verdict.allowed or not self._may_begin():
            self._answers.refuse(asked, client)
            return None
        flow = self._flows[pair] = UdpFlow(sandbox, client, asked, verdict, self._answers)
        flow.on_end = partial(self._forget, pair)
        flow.on_denial = partial(self._tell, pair)
        return flow

    def _forget(self, pair: _Pair) -> None:
        self._sandbox.descriptors.give_back(_DESCRIPTORS_PER_FLOW)
        del self._flows[pair]

    def _may_begin(self) -> bool:
        sandbox = self._sandbox
        if len(self._flows) >= sandbox.limits.udp_flows:
            return sandbox.refuse("udp_flows")
        if not sandbox.descriptors.take(_DESCRIPTORS_PER_FLOW):
            return sandbox.refuse("descriptors")
        return True

    def _tell(self, pair: _Pair, verdict: Verdict) -> None:
        """Take note of a denial, unless the same has been told a moment ago."""
        now, denial = self._sandbox.loop.clock(), (pair, verdict.reason)
        if self._told.get(denial, now - REPEAT_SECONDS) > now - REPEAT_SECONDS:
            return
        if len(self._told) >= self._sandbox.limits.udp_flows:
            self._told.clear()
        self._told[denial] = now
        self._sandbox.observer.flow_denied(verdict)
