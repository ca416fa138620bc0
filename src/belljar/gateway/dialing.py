"""From a decision to a connection: resolve, check every address, dial one of those that were checked.

The name is resolved here and nowhere else, the policy is asked again with what it resolved to, and an address that
passed is what is dialled. Nothing that the client said about addresses plays a part, so there is nothing to rebind.

Which addresses are the host's own changes while a gateway runs. So the kernel is asked (`linux.routes`) before an
address is dialled, and once more when the connection is there and has carried nothing yet: an address that has become
the host's own in between gets no byte. It is also asked where an upstream proxy is to dial, which may be on this host.
"""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Literal

from belljar.gateway.jar import Jar
from belljar.gateway.loop import Loop
from belljar.gateway.racing import connect_any
from belljar.gateway.resolver import Resolver
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.streams import Stream
from belljar.gateway.upstreamproxy import Upstream
from belljar.linux.routes import Routes
from belljar.names import Address
from belljar.policy import Action, Flow, Protocol, Reason, Verdict
from belljar.policy.addresses import unwrap
from belljar.policy.reserved import HOST_NAMES

_HOST_ADDRESSES: Final = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
_TCP, _UDP = int(socket.IPPROTO_TCP), int(socket.IPPROTO_UDP)  # plain numbers: each is used for every connection
_FAMILIES: Final = {4: int(socket.AF_INET), 6: int(socket.AF_INET6)}


class DeniedError(Exception):
    """The policy does not allow the flow, now that more is known about it."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.sentence)
        self.verdict = verdict


class Dialler:
    """Opens connections for flows that the policy allows."""

    def __init__(self, loop: Loop, resolver: Resolver, settings: Settings = DEFAULTS) -> None:
        self._loop = loop
        self._resolver = resolver
        self._routes = Routes()
        self.upstream = Upstream(loop, resolver, settings)

    def close(self) -> None:
        """Release what is held between dials."""
        self._routes.close()

    async def dial(self, jar: Jar, flow: Flow, on_settled: Callable[[Flow], None]) -> tuple[Flow, Stream]:
        """Return the flow with its addresses, and a connection to one of them. Raises DeniedError or OSError.

        `on_settled` is told the addresses before one is dialled, and may raise DeniedError: a dial takes its time, and
        a policy that denies one of them meanwhile has to end it. The flow has to be decided again before the connection
        is used: what it says is as new as the connection.
        """
        port = flow.port
        if port is None:
            raise ValueError("a flow without a port cannot be dialled")
        flow = await self._settle(jar, flow)
        on_settled(flow)
        if flow.name in HOST_NAMES:
            return flow, await connect_any(self._loop, _HOST_ADDRESSES, port)
        with _Timed(self._loop, jar, "dial"):
            stream = await self.upstream.connect(flow, port)
        try:
            return self.as_connected(flow, stream.socket), stream
        except OSError:
            stream.close()
            raise

    async def addresses_for_datagrams(self, jar: Jar, flow: Flow) -> tuple[Flow, Sequence[Address]]:
        """Return the flow with its addresses, and those that datagrams may go to. Raises DeniedError or OSError.

        The flow has to be decided again when there is a socket that leads to one of them (`as_connected`).
        """
        flow = await self._settle(jar, flow)
        direct = [address for address in flow.addresses if self.upstream.is_direct(flow.name, address)]
        if not direct:
            raise OSError("datagrams cannot go through the upstream proxy")
        return flow, direct

    def as_connected(self, flow: Flow, connected: socket.socket) -> Flow:
        """Return the flow with what the kernel says of it now that a socket is connected. Raises OSError."""
        if self.upstream.has_proxy:  # which may have been asked for any of them
            return self._with_own(flow, flow.addresses)
        source = connected.getsockname()[0]
        version = 6 if ":" in source else 4
        candidates = [address for address in flow.addresses if address.version == version]
        return self._with_own(flow, candidates, socket.inet_pton(_FAMILIES[version], source))

    def _with_own(self, flow: Flow, addresses: Sequence[Address], source: bytes = b"") -> Flow:
        """Return the flow with those of the addresses that are the host's own at this moment. Raises OSError."""
        protocol, port = _UDP if flow.protocol is Protocol.UDP else _TCP, flow.port or 0
        own = [address for address in addresses if self._is_own(address, protocol, port, source)]
        return flow._replace(own=tuple(own)) if own else flow

    def _is_own(self, address: Address, protocol: int, port: int, source: bytes = b"") -> bool:
        if self._routes.is_own(address, protocol, port, source):
            return True
        inner = unwrap(address)
        return inner is not address and self._routes.is_own(inner, protocol, port)

    async def _settle(self, jar: Jar, flow: Flow) -> Flow:
        """Return the flow with its addresses, all of them checked. Raises DeniedError or OSError."""
        if flow.name not in HOST_NAMES:
            if flow.name is not None:
                if not jar.admits_name(jar.decide(flow)):
                    raise OSError(f"too many names were asked for beside {flow.name}")
                if not self.upstream.resolves(flow.name):
                    with _Timed(self._loop, jar, "resolve"):
                        flow = flow._replace(addresses=(await self._resolver.resolve(flow.name)).addresses)
            flow = self._with_own(flow, flow.addresses)
            verdict = jar.decide(flow)
            if not verdict.allowed:
                raise DeniedError(verdict)
        if self.upstream.has_proxy:
            await self._keep_from_proxy(flow)
        return flow

    async def _keep_from_proxy(self, flow: Flow) -> None:
        """Deny what would end at the upstream proxy, which goes wherever it is asked to."""
        if await self.upstream.leads_to_proxy(flow, self._is_own):
            culprit = "the upstream proxy, which is for the gateway alone"
            raise DeniedError(Verdict(Action.DENY, Reason.RESERVED_ADDRESS, None, flow, culprit))


class _Timed:
    """A block whose time is taken, whatever comes of it."""

    __slots__ = ("_jar", "_loop", "_started", "_step")

    def __init__(self, loop: Loop, jar: Jar, step: Literal["resolve", "dial"]) -> None:
        self._loop, self._jar, self._step = loop, jar, step

    def __enter__(self) -> None:
        self._started = self._loop.clock()

    def __exit__(self, *_: object) -> None:
        self._jar.observer.took(self._step, self._loop.clock() - self._started)
