"""From a decision to a connection: resolve, check every address, dial one of those that were checked.

The name is resolved here and nowhere else, the policy is asked again with what it resolved to, and an address that
passed is what is dialled. Nothing that the client said about addresses plays a part, so there is nothing to rebind.

The policy has the last word when there is a connection that has carried nothing yet, for TCP and UDP alike, and also
after an upstream proxy's answer: `dial` and `open_datagram_socket` return none that it does not allow by then.

Which addresses are the host's own changes while a gateway runs. So the kernel is asked (`linux.routes`) before an
address is dialled, and once more when the connection is there and has carried nothing yet: an address that has become
the host's own in between gets no byte. It is also asked where an upstream proxy is to dial, which may be on this host.
"""

import socket
from collections.abc import Sequence
from typing import Final

from belljar.gateway.flows import DeniedError, LiveFlow
from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream
from belljar.gateway.settings import DEFAULTS, Settings
from belljar.gateway.upstream.proxy import Upstream
from belljar.gateway.upstream.resolver import Resolver
from belljar.gateway.upstream.services import ServiceDialler, in_the_network
from belljar.linux.routes import Routes
from belljar.names import Address
from belljar.policy import Action, Flow, Protocol, Reason, Verdict
from belljar.policy.addresses import unwrap
from belljar.policy.services import ServiceKind

_TCP, _UDP = int(socket.IPPROTO_TCP), int(socket.IPPROTO_UDP)  # plain numbers: each is used for every connection
_FAMILIES: Final = {4: int(socket.AF_INET), 6: int(socket.AF_INET6)}


class Dialler:
    """Opens connections for flows that the policy allows."""

    def __init__(
        self, loop: Loop, resolver: Resolver, settings: Settings = DEFAULTS, *, broker: int | None = None
    ) -> None:
        """`broker` is a descriptor of the broker's socket, if there is one."""
        self._loop = loop
        self._resolver = resolver
        self._routes = Routes()
        self.upstream = Upstream(loop, resolver, settings)
        self._services = ServiceDialler(loop, broker)

    def close(self) -> None:
        """Release what is held between dials."""
        self._routes.close()

    async def dial(self, live: LiveFlow) -> Stream:
        """Return a connection to where a flow leads, which the policy of now allows. Raises DeniedError or OSError.

        The flow knows its addresses before one is dialled: a dial takes its time, and a policy that denies one of them
        meanwhile has to end it.
        """
        await self._settle(live)
        flow, service = live.flow, live.service
        if flow.port is None:
            raise ValueError("a flow without a port cannot be dialled")
        started = self._loop.clock()
        try:
            if service is None:
                stream = await self.upstream.connect(flow, flow.port)
            elif service.kind is ServiceKind.ADDRESS:
                there = in_the_network(flow, service)
                stream = await self.upstream.connect(there, there.port or flow.port)
            else:
                stream = await self._services.connect(live.sandbox.id, service)
        finally:
            live.sandbox.observer.took("dial", self._loop.clock() - started)
        try:
            self._confirm(live, stream.socket)
        except BaseException:
            stream.reset()
            raise
        return stream

    async def open_datagram_socket(self, live: LiveFlow, version: int) -> socket.socket:
        """Return a socket that is connected to where a flow leads, which the policy of now allows.

        The address is of an IP version, if there is one. Raises DeniedError or OSError.
        """
        await self._settle(live)
        flow = live.flow
        direct = [address for address in flow.addresses if self.upstream.is_direct(flow.name, address)]
        if not direct:
            raise OSError("datagrams cannot go through the upstream proxy")
        connected = _datagram_socket(sorted(direct, key=lambda address: address.version != version), flow.port or 0)
        try:
            self._confirm(live, connected)
        except BaseException:
            connected.close()
            raise
        return connected

    def _confirm(self, live: LiveFlow, connected: socket.socket) -> None:
        """Decide again by the policy of now, and by where the kernel says that a socket leads. Raises DeniedError."""
        flow = self._as_connected(live.flow, connected) if live.is_to_network else live.flow
        live.is_connected = True
        live.decide_again(flow)

    def _as_connected(self, flow: Flow, connected: socket.socket) -> Flow:
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

    async def _settle(self, live: LiveFlow) -> None:
        """Have a flow know its addresses, all of them checked. Raises DeniedError or OSError."""
        live.find_service()
        flow = live.flow
        if live.is_to_network:
            there = flow if live.service is None else in_the_network(flow, live.service)
            if there.name is not None:
                if not live.sandbox.admits_name(live.verdict()):
                    raise OSError(f"too many names were asked for beside {there.name}")
                if not self.upstream.resolves(there.name):
                    flow = flow._replace(addresses=await self._resolve(live, there.name))
            elif there is not flow:
                flow = flow._replace(addresses=there.addresses)
            flow = self._with_own(flow, flow.addresses)
        if self.upstream.has_proxy:
            live.check(flow)
            await self._keep_from_proxy(live, flow)
        live.decide_again(flow)

    async def _resolve(self, live: LiveFlow, name: str) -> tuple[Address, ...]:
        started = self._loop.clock()
        try:
            return (await self._resolver.resolve(name)).addresses
        finally:
            live.sandbox.observer.took("resolve", self._loop.clock() - started)

    async def _keep_from_proxy(self, live: LiveFlow, flow: Flow) -> None:
        """Deny what would end at the upstream proxy, which goes wherever it is asked to."""
        if await self.upstream.leads_to_proxy(flow, live.service, self._is_own):
            culprit = "the upstream proxy, which is for the gateway alone"
            raise DeniedError(Verdict(Action.DENY, Reason.RESERVED_ADDRESS, None, flow, culprit))


def _datagram_socket(addresses: Sequence[Address], port: int) -> socket.socket:
    """Return a socket that is connected to the first address that there is a way to. Raises OSError."""
    trouble = OSError("the name has no addresses")
    for address in addresses:
        family = _FAMILIES[address.version]
        connected = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            connected.connect((str(address), port))
        except OSError as error:
            connected.close()
            trouble = error
        else:
            return connected
    raise trouble
