"""Documents in their normal form to policies, without a second thought: the way back from `render.to_data`.

What a user writes is read by `parse`. Here everything is known to be right, and to be spelled in the one way.
"""

from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any, Final

from belljar.policy.model import (
    Action,
    DomainPattern,
    Egress,
    Mode,
    Policy,
    PortRange,
    PresetUse,
    Protocol,
    Rule,
    Scope,
)

if TYPE_CHECKING:
    from belljar.policy.services import Service


def normal_policy(document: Mapping[str, Any]) -> Policy:
    """Return the policy that became a document."""
    return Policy(
        mode=Mode(document["mode"]),
        egress=Egress(**{key: tuple(map(_ENTRIES[key], texts)) for key, texts in document.get("egress", {}).items()}),
        rules=tuple(map(_rule, document.get("rules", ()))),
        presets=tuple(map(_preset, document.get("presets", ()))),
        host_ports=tuple(map(normal_port, document.get("host_ports", ()))),
        services=normal_services(document),
        allow_private=document.get("allow_private", False),
    )


def normal_services(document: Mapping[str, Any]) -> "tuple[Service, ...]":
    """Return the services of a document."""
    if "services" not in document:
        return ()
    from belljar.policy.services import service_from_data  # noqa: PLC0415 - most policies have none

    return tuple(service_from_data(*entry) for entry in document["services"].items())


def normal_port(written: int | str) -> PortRange:
    """Return the ports that became a number or a text."""
    if isinstance(written, int):
        return PortRange(written, written)
    ports, _, protocol = written.partition("/")
    first, _, last = ports.partition("-")
    return PortRange(int(first), int(last or first), Protocol(protocol) if protocol else None)


def _domain(text: str) -> DomainPattern:
    if ":" not in text and not text.startswith(("*", ".")):  # as almost all are
        return DomainPattern(text)
    name, colon, port = text.partition(":")
    if name.startswith("*."):
        return DomainPattern(name[2:], Scope.BELOW, int(port) if colon else None)
    if name.startswith("."):
        return DomainPattern(name[1:], Scope.WITHIN, int(port) if colon else None)
    return DomainPattern(name, Scope.EXACT, int(port) if colon else None)


def _rule(data: Mapping[str, Any]) -> Rule:
    return Rule(
        action=Action(data["action"]),
        name=data.get("name"),
        domains=tuple(map(_domain, data.get("domains", ()))),
        cidrs=tuple(map(ip_network, data.get("cidrs", ()))),
        ports=tuple(map(normal_port, data.get("ports", ()))),
        protocol=Protocol(data["protocol"]) if "protocol" in data else None,
    )


def _preset(data: str | Mapping[str, Any]) -> PresetUse:
    if isinstance(data, str):
        return PresetUse(data)
    [(name, hosts)] = data.items()
    return PresetUse(name, tuple(map(_domain, [hosts] if isinstance(hosts, str) else hosts)))


_ENTRIES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "allowed_domains": _domain,
    "allowed_cidrs": ip_network,
    "allowed_ports": normal_port,
    "denied_domains": _domain,
    "denied_cidrs": ip_network,
    "denied_ports": normal_port,
}
