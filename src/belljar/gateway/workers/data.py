"""What the supervisor and a worker tell each other, as plain data and back.

A policy is compiled again where it is used. What its presets mean was found out by asking the tools of this machine,
once; so the answers go along.
"""

from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any

from belljar.gateway.hostfiles import parse_server
from belljar.gateway.proxyurl import UpstreamProxy
from belljar.gateway.settings import Exceptions, Settings
from belljar.names import Host, parse_host
from belljar.policy import CompiledPolicy, Flow, Protocol, policy_from
from belljar.policy.compiled import compile_expanded
from belljar.policy.model import DomainPattern, Scope
from belljar.policy.presets import Expansion, PresetEntry
from belljar.policy.reading import Reading
from belljar.policy.render import to_data


def policy_to_data(compiled: CompiledPolicy) -> dict[str, Any]:
    """Return everything that a policy was compiled from."""
    return {
        "document": to_data(compiled.policy),
        "presets": [[_entry_to_data(entry) for entry in entries] for entries in compiled.expansion.entries],
        "generation": compiled.generation,
        "host_addresses": [str(address) for address in compiled.host_addresses],
    }


def policy_from_data(data: dict[str, Any]) -> CompiledPolicy:
    """Compile a policy. Raises InvalidPolicyError."""
    return compile_expanded(
        policy_from(Reading(data["document"])).policy,
        Expansion(tuple(tuple(map(_entry_from_data, entries)) for entries in data["presets"])),
        generation=data["generation"],
        host_addresses=map(ip_address, data["host_addresses"]),
    )


def _entry_to_data(entry: PresetEntry) -> list[Any]:
    pattern = entry.pattern
    return [pattern.name, pattern.scope, pattern.port, entry.why]


def _entry_from_data(data: list[Any]) -> PresetEntry:
    name, scope, port, why = data
    return PresetEntry(DomainPattern(name, Scope(scope), port), why)


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
