"""Policies to text: one normal form, the same in YAML, JSON and TOML, that reads back as an equal policy."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from belljar.policy.language.syntax import Syntax
from belljar.policy.model import Egress, Policy, PortRange, PresetUse, Rule
from belljar.policy.presets import Expansion

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9.-]*[A-Za-z0-9]", re.ASCII)
_PLAIN_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]", re.ASCII)
_SPECIAL_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


def render(policy: Policy, syntax: Syntax) -> str:
    """Write a policy in the given syntax."""
    data = to_data(policy)
    if syntax is Syntax.JSON:
        return json.dumps(data, indent=2) + "\n"
    return _as_toml(data) if syntax is Syntax.TOML else _as_yaml(data)


def flatten(policy: Policy, expansion: Expansion) -> Policy:
    """Return a policy that says with domains what its presets mean here."""
    patterns = dict.fromkeys(entry.pattern for entries in expansion.entries for entry in entries)
    allowed = dict.fromkeys((*policy.egress.allowed_domains, *patterns))
    return policy._replace(presets=(), egress=policy.egress._replace(allowed_domains=tuple(allowed)))


def to_data(policy: Policy) -> dict[str, Any]:
    """Return the plain data of a policy, in the order of the documentation, without what is empty."""
    data: dict[str, Any] = {"mode": policy.mode.value}
    if egress := _egress(policy.egress):
        data["egress"] = egress
    if policy.rules:
        data["rules"] = [rule_to_data(rule) for rule in policy.rules]
    if policy.presets:
        data["presets"] = [_preset(use) for use in policy.presets]
    if policy.host_ports:
        data["host_ports"] = [_port(ports) for ports in policy.host_ports]
    if policy.services:
        from belljar.policy.services import service_to_data  # noqa: PLC0415 - most policies have none

        data["services"] = {service.name: service_to_data(service) for service in policy.services}
    if policy.allow_private:
        data["allow_private"] = True
    return data


def _egress(egress: Egress) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = {
        "allowed_domains": [str(pattern) for pattern in egress.allowed_domains],
        "allowed_cidrs": [str(network) for network in egress.allowed_cidrs],
        "allowed_ports": [_port(ports) for ports in egress.allowed_ports],
        "denied_domains": [str(pattern) for pattern in egress.denied_domains],
        "denied_cidrs": [str(network) for network in egress.denied_cidrs],
        "denied_ports": [_port(ports) for ports in egress.denied_ports],
    }
    return {key: entries for key, entries in lists.items() if entries}


def rule_to_data(rule: Rule) -> dict[str, Any]:
    """Return the plain data of a rule."""
    data: dict[str, Any] = {"name": rule.name, "action": rule.action.value}
    data["domains"] = [str(pattern) for pattern in rule.domains]
    data["cidrs"] = [str(network) for network in rule.cidrs]
    data["ports"] = [_port(ports) for ports in rule.ports]
    data["protocol"] = rule.protocol.value if rule.protocol else None
    return {key: value for key, value in data.items() if value}


def _preset(use: PresetUse) -> str | dict[str, Any]:
    hosts = [str(host) for host in use.hosts]
    return {use.name: hosts[0] if len(hosts) == 1 else hosts} if hosts else use.name


def _port(ports: PortRange) -> int | str:
    return ports.first if ports == PortRange(ports.first, ports.first) else str(ports)


# YAML and TOML are written by hand: a policy has a few shapes only, and both standard writers would need as much
# code around them to keep the order, the quotes and the compact rules.


def _as_yaml(data: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for key, value in data.items():
        if isinstance(value, Mapping):
            lines.append(f"{key}:")
            for inner, entries in value.items():
                if isinstance(entries, Mapping):
                    lines.append(f"  {_yaml_key(inner)}: {_yaml_value(entries)}")
                    continue
                lines.append(f"  {inner}:")
                lines += (f"    - {_yaml_value(entry)}" for entry in entries)
        elif isinstance(value, list):
            lines.append(f"{key}:")
            lines += (f"  - {_yaml_value(entry)}" for entry in value)
        else:
            lines.append(f"{key}: {_yaml_value(value)}")
    return "\n".join(lines) + "\n"


def _yaml_value(value: Any) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _SPECIAL_WORDS:
        return value
    return _inline(value, _yaml_value, key=_yaml_key, separator=": ")


def _yaml_key(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) and key.lower() not in _SPECIAL_WORDS else json.dumps(key)


def _as_toml(data: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in data.items() if key not in ("egress", "rules", "services")}
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items()]
    if "egress" in data:
        lines += ["", "[egress]"]
        lines += (f"{key} = {_toml_value(value)}" for key, value in data["egress"].items())
    if "services" in data:
        lines += ["", "[services]"]
        lines += (f"{name} = {_toml_value(service)}" for name, service in data["services"].items())
    for rule in data.get("rules", ()):
        lines += ["", "[[rules]]"]
        lines += (f"{key} = {_toml_value(value)}" for key, value in rule.items())
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    return _inline(value, _toml_value, key=str, separator=" = ")


def _inline(value: Any, write: Callable[[Any], str], *, key: Callable[[str], str], separator: str) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key(name)}{separator}{write(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(write, value)) + "]"
    return json.dumps(value, ensure_ascii=False)  # as JSON alone writes characters in halves
