"""Which way a flow leaves the gateway: directly, or through the upstream proxy.

Theory of operation
-------------------
Everything has been decided before anything happens here: the policy has allowed the flow, its name has been resolved
and every address guarded. What the proxy is asked for is *the checked address*, so the guard stays ours: a proxy that
was given the name would resolve it again, and could be led to an address that nobody has checked. Several addresses
are tried in turn, as without a proxy.

Two kinds of networks cannot work like that: those whose resolvers know no names of the internet, and those whose proxy
lets through names only. For them there is `Settings.proxy_resolves`. Names are then sent as such, unresolved, and where
they lead is for the proxy to guard. A policy that denies ranges of addresses could not be kept, and is refused.

Exceptions are dialled directly, after the same decision and the same guard. The host's own services never come here.

The proxy itself is the operator's choice and may be anywhere, on loopback too. But whoever can talk to it can go
wherever it goes, without any policy; so no sandbox is connected to one of its addresses, on whatever port, nor through
`host_ports` to one that runs on this machine.
"""

from collections.abc import Callable, Coroutine
from functools import partial
from socket import IPPROTO_TCP
from typing import Any

from belljar.errors import BelljarError
from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream, connect, describe
from belljar.gateway.settings import PROXY_RESOLVES, Settings
from belljar.gateway.upstream.proxyurl import UpstreamProxy
from belljar.gateway.upstream.racing import connect_any, first_of, in_turn
from belljar.gateway.upstream.resolver import ResolutionError, Resolver
from belljar.gateway.upstream.tunnel import ProxyError, TunnelDialogue, open_tunnel
from belljar.names import Address, Host, parse_authority
from belljar.policy import CompiledPolicy, Flow, ResolvedPolicy
from belljar.policy.addresses import unwrap
from belljar.policy.services import Service, ServiceKind


class UnenforceableError(BelljarError):
    """A policy asks for something that the gateway's settings leave to somebody else."""


def check_enforceable(policy: CompiledPolicy | ResolvedPolicy, settings: Settings) -> None:
    """Make sure that a policy can be kept with these settings. Raises UnenforceableError."""
    if settings.proxy is not None and settings.proxy_resolves and policy.denies_ranges:
        raise UnenforceableError(
            "the policy denies ranges of addresses, and where a name leads is not known here while the upstream proxy "
            f"resolves names; deny domains instead, or do without {PROXY_RESOLVES}"
        )


class Upstream:
    """What lies between the gateway and the network."""

    def __init__(self, loop: Loop, resolver: Resolver, settings: Settings) -> None:
        self._loop = loop
        self._resolver = resolver
        self._proxy = settings.proxy
        self.has_proxy = settings.proxy is not None
        self._exceptions = settings.exceptions
        self._proxy_resolves = settings.proxy is not None and settings.proxy_resolves

    def resolves(self, name: str) -> bool:
        """Tell whether a name is left to the proxy, and so must not be resolved here."""
        return self._proxy_resolves and not self._exceptions.cover_name(name)

    def is_direct(self, name: str | None, address: Address) -> bool:
        """Tell whether an address, reached under a name or as such, is dialled without the proxy.

        What cannot go through a proxy at all, as datagrams cannot, must not go where this is false.
        """
        if self._proxy is None or self._exceptions.cover_address(address):
            return True
        return name is not None and self._exceptions.cover_name(name)

    async def leads_to_proxy(
        self, flow: Flow, service: Service | None, is_own: Callable[[Address, int, int], bool]
    ) -> bool:
        """Tell whether a flow, perhaps to a service, would end at the proxy itself. Raises OSError if nobody can tell.

        `is_own` tells whether an address is the host's own, for a protocol and a port.
        """
        proxy = self._proxy
        if proxy is None:
            return False
        if service is None:
            named: Host | None = flow.name
        elif service.kind is ServiceKind.ADDRESS:
            named = parse_authority(service.target)[0]
        else:
            return await self._is_at_port(proxy, service, is_own)
        if named == proxy.host:
            return True
        proxies = {unwrap(address) for address in await self._addresses_of(proxy)}
        return any(unwrap(address) in proxies for address in flow.addresses)

    async def _is_at_port(
        self, proxy: UpstreamProxy, service: Service, is_own: Callable[[Address, int, int], bool]
    ) -> bool:
        """Tell whether the proxy is a service of this host itself."""
        if service.kind is not ServiceKind.HOST_PORT or int(service.target) != proxy.port:
            return False
        proxies = map(unwrap, await self._addresses_of(proxy))
        return any(address.is_loopback or is_own(address, IPPROTO_TCP, proxy.port) for address in proxies)

    def connect(self, flow: Flow, port: int) -> Coroutine[Any, Any, Stream]:
        """Connect to where a flow leads. Raises OSError."""
        proxy = self._proxy
        if proxy is None:
            return connect_any(self._loop, flow.addresses, port)
        if flow.name is not None and self.resolves(flow.name):
            return self._tunnel(proxy, flow.name, port)
        attempts = [
            partial(connect, self._loop, address, port)
            if self.is_direct(flow.name, address)
            else partial(self._tunnel, proxy, address, port)
            for address in in_turn(flow.addresses)
        ]
        return first_of(self._loop, attempts)

    async def _tunnel(self, proxy: UpstreamProxy, host: Host, port: int) -> Stream:
        addresses = await self._addresses_of(proxy)
        try:
            stream = await connect_any(self._loop, addresses, proxy.port)
        except OSError as error:
            raise ProxyError(f"the upstream proxy cannot be reached: {describe(error)}") from None
        try:
            await open_tunnel(stream, TunnelDialogue(host, port, proxy.authorization))
        except BaseException:
            stream.close()
            raise
        return stream

    async def _addresses_of(self, proxy: UpstreamProxy) -> tuple[Address, ...]:
        if not isinstance(proxy.host, str):
            return (proxy.host,)
        try:
            return (await self._resolver.resolve(proxy.host)).addresses
        except ResolutionError as error:
            raise ProxyError(f"the upstream proxy cannot be found: {error}") from None
