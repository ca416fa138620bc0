"""Where the names of services lead, other than into the network: to a port of the host, a unix socket, or a broker.

The table is the policy's (`CompiledPolicy.service`), and whoever comes here was allowed to, by the same decision as
every other flow. A broker is a process of its own (`belljar.broker`), and takes connections at a socket; it is told
first whom a connection is from and what it may do there. A service at another address is dialled like any destination,
by its address instead of its name (`dialing`).
"""

from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from belljar.gateway.io.loop import Loop
from belljar.gateway.io.streams import Stream
from belljar.gateway.upstream.racing import connect_any
from belljar.linux.unixsockets import connect_held, connect_without_links
from belljar.names import parse_authority
from belljar.policy import Flow
from belljar.policy.services import Service, ServiceKind

_HOST_ADDRESSES: Final = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


class ServiceDialler:
    """Connects to services."""

    def __init__(self, loop: Loop, broker: int | None) -> None:
        """Know a descriptor of the broker's socket, if this gateway has a broker."""
        self._loop, self._broker = loop, broker

    async def connect(self, sandbox: str, service: Service) -> Stream:
        """Connect to a service on behalf of a sandbox. Raises OSError."""
        if service.kind is ServiceKind.HOST_PORT:
            return await connect_any(self._loop, _HOST_ADDRESSES, int(service.target))
        if service.kind is ServiceKind.UNIX_SOCKET:
            return Stream(self._loop, connect_without_links(Path(service.target)))
        return await self._connect_broker(sandbox, service)

    async def _connect_broker(self, sandbox: str, service: Service) -> Stream:
        from belljar.broker import preamble  # noqa: PLC0415 - not every sandbox has one

        if self._broker is None:
            raise OSError("this gateway has no broker")
        stream = Stream(self._loop, connect_held(self._broker))
        try:
            await stream.write(preamble.write(sandbox, service, refuse_tools=not service.server_tools))
        except BaseException:
            stream.close()
            raise
        return stream


def in_the_network(flow: Flow, service: Service) -> Flow:
    """Return where a flow leads whose service is at an address."""
    host, port = parse_authority(service.target)
    if isinstance(host, str):
        return flow._replace(name=host, port=port)
    return flow._replace(name=None, port=port, addresses=(host,))
