"""What the supervisor and a worker tell each other besides policies, as plain data and back."""

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from belljar.gateway.settings import Exceptions, Settings
from belljar.gateway.upstream.hostfiles import parse_server
from belljar.gateway.upstream.proxyurl import UpstreamProxy
from belljar.names import Host, parse_host
from belljar.policy import Flow, Protocol


def flow_to_data(flow: Flow) -> dict[str, Any]:
    """Return a flow as plain data."""
    return flow._asdict() | {"addresses": [str(address) for address in flow.addresses]}


def flow_from_data(data: dict[str, Any]) -> Flow:
    """Return the flow that became plain data."""
    protocol, addresses = data["protocol"], data["addresses"]
    return Flow(
        name=data["name"],
        port=data["port"],
        protocol=Protocol(protocol) if protocol else None,
        addresses=tuple(map(ip_address, addresses)),
        claimed=data["claimed"],
    )


def settings_to_data(settings: Settings) -> dict[str, Any]:
    """Return settings as plain data."""
    proxy, exceptions = settings.proxy, settings.exceptions
    return {
        "resolvers": [str(server) for server in settings.resolvers],
        "proxy": [_written(proxy.host), proxy.port, proxy.authorization] if proxy else None,
        "exceptions": [exceptions.everything, exceptions.domains, [str(network) for network in exceptions.ranges]],
        "proxy_resolves": settings.proxy_resolves,
    }


def settings_from_data(data: dict[str, Any]) -> Settings:
    """Return the settings that became plain data."""
    everything, domains, ranges = data["exceptions"]
    return Settings(
        resolvers=tuple(map(parse_server, data["resolvers"])),
        proxy=_proxy_from_data(*data["proxy"]) if data["proxy"] else None,
        exceptions=Exceptions(everything, tuple(domains), tuple(map(ip_network, ranges))),
        proxy_resolves=data["proxy_resolves"],
    )


def _written(host: Host) -> str:
    return f"[{host}]" if isinstance(host, IPv6Address) else str(host)


def _proxy_from_data(host: str, port: int, authorization: str | None) -> UpstreamProxy:
    return UpstreamProxy(parse_host(host), port, authorization)
