"""What the formats that can be imported mean to their own tools: independent readings, to hold importers against.

Each answers one question: does the source open this flow, whoever asks for it and whatever is spoken there?
"""

from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any

from belljar.policy import Flow


def _host(flow: Flow) -> str:
    return flow.name or str(flow.addresses[0])


def _between(first: object, flow: Flow, last: object) -> bool:
    return flow.port in range(int(str(first)), int(str(last or first)) + 1)


# sandbox0


def sandbox0_opens(document: dict[str, Any], flow: Flow) -> bool:
    egress = document.get("egress", {})
    lists = {key: egress.get(key) or [] for key in _SANDBOX0_LISTS}
    rules = egress.get("trafficRules") or []
    if any(lists.values()) and document["mode"] == "block-all":
        allowed = {kind: lists[f"allowed{kind.capitalize()}"] for kind in ("domains", "cidrs", "ports")}
        rules = [{"action": "allow", **allowed}] if any(allowed.values()) else []
    elif any(lists.values()):
        rules = [{"action": "deny", k: lists[f"denied{k.capitalize()}"]} for k in ("domains", "cidrs", "ports")]
        rules = [rule for rule in rules if any(value for key, value in rule.items() if key != "action")]
    opened = next((rule["action"] == "allow" for rule in rules if _sandbox0_fits(rule, flow)), None)
    restricted = any(_sandbox0_fits({**rule, "action": "deny"}, flow) for rule in egress.get("protocolRules") or [])
    return (document["mode"] == "allow-all" if opened is None else opened) and not restricted


_SANDBOX0_LISTS = ("allowedDomains", "allowedCidrs", "allowedPorts", "deniedDomains", "deniedCidrs", "deniedPorts")


def _sandbox0_fits(rule: dict[str, Any], flow: Flow) -> bool:
    if rule.get("appProtocols") and rule["action"] == "allow":
        return False  # fits some of what can be spoken, not all
    return (
        _any_or_none_given(rule.get("domains"), lambda entry: _sandbox0_name(entry, _host(flow)))
        and _any_or_none_given(rule.get("cidrs"), lambda entry: _in_range(entry, flow))
        and _any_or_none_given(rule.get("ports"), lambda entry: _sandbox0_port(entry, flow))
    )


def _any_or_none_given(entries, fits) -> bool:
    return not entries or any(map(fits, entries))


def _sandbox0_name(entry: str, host: str) -> bool:
    pattern = entry.strip().lower()
    if pattern.startswith("*."):
        return host == pattern[2:] or host.endswith(pattern[1:])
    return host == pattern


def _in_range(entry: str, flow: Flow) -> bool:
    try:
        network = ip_network(entry, strict=False)
    except ValueError:
        return False
    return network.prefixlen == 0 or flow.addresses[0] in network


def _sandbox0_port(entry, flow: Flow) -> bool:
    if isinstance(entry, dict):
        first, last, protocol = entry["port"], entry.get("endPort") or entry["port"], entry.get("protocol") or "tcp"
    else:
        ports, _, protocol = str(entry).partition("/")
        first, _, last = ports.partition("-")
        protocol = protocol or "tcp"
    return _between(first, flow, last) and protocol == flow.protocol


# srt


def srt_opens(document: dict[str, Any], flow: Flow) -> bool:
    network = document["network"]
    if any(_srt_fits(entry, flow) for entry in network.get("deniedDomains", ())):
        return False
    return any(_srt_fits(entry, flow) for entry in network.get("allowedDomains", ()))


def _srt_fits(entry: str, flow: Flow) -> bool:
    name, port = entry, None
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
    elif entry.startswith("["):
        name, _, port = entry[1:].partition("]")
        port = port.removeprefix(":") or None
    fits_name = name == "*" or _host(flow) == name or (name.startswith("*.") and _host(flow).endswith(name[1:]))
    return fits_name and port in (None, str(flow.port))


# Forge


def forge_opens(document: dict[str, Any], flow: Flow) -> bool:
    if flow.addresses[0].is_private and _is_internal(flow) and not document.get("allow_private_ips"):
        return False
    if document["mode"] == "allowlist":
        domains = document.get("all_domains")
        if domains is None:
            domains = [*document.get("allowed_domains", ()), *document.get("tool_domains", ())]
        host = _host(flow)
        return any(host == entry.strip() or (entry.startswith("*.") and host.endswith(entry[1:])) for entry in domains)
    return bool(document["mode"] == "dev-open")


def _is_internal(flow: Flow) -> bool:
    # The documentation ranges, private to the standard library, are the internet of the tests.
    return flow.addresses[0] in ip_network("10.0.0.0/8") if flow.addresses[0].version == 4 else False


# Squid


@dataclass(frozen=True)
class SquidConf:
    """A configuration: lists as (type, values), and http_access lines as (action, lists)."""

    acls: dict[str, tuple[str, tuple[str, ...]]]
    lines: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        acls = [f"acl {name} {kind} {' '.join(values)}" for name, (kind, values) in self.acls.items()]
        return "\n".join([*acls, *(f"http_access {action} {' '.join(words)}" for action, words in self.lines)]) + "\n"

    def opens(self, flow: Flow) -> bool:
        """Tell whether anything can be spoken to a destination, or plain HTTP on the port that is for it."""
        return self._answers(flow, "CONNECT") or (flow.port == 80 and self._answers(flow, "GET"))

    def _answers(self, flow: Flow, method: str) -> bool:
        for action, words in self.lines:
            if all(self._fits(word, flow, method, action) for word in words):
                return action == "allow"
        return not self.lines or self.lines[-1][0] == "deny"

    def _fits(self, word: str, flow: Flow, method: str, action: str) -> bool:
        if word == "all":
            return True
        kind, values = self.acls[word.removeprefix("!")]
        if kind == "src":  # whoever asks
            return action == "deny"
        fits = any(_squid_fits(kind, value, flow, method) for value in values)
        return fits != word.startswith("!")


def _squid_fits(kind: str, value: str, flow: Flow, method: str) -> bool:
    match kind:
        case "dstdomain":
            return squid_name(value, _host(flow))
        case "dst":
            return flow.addresses[0] in ip_network(value)
        case "port":
            first, _, last = value.partition("-")
            return _between(first, flow, last)
        case _:
            return method == value


def squid_name(pattern: str, host: str) -> bool:
    return host == pattern or (pattern.startswith(".") and (host == pattern[1:] or host.endswith(pattern)))


# Where the flows go

NAMES = ("x.example", "a.x.example", "b.a.x.example", "y.example", "z.y.example", "ax.example")
ADDRESSES = tuple(map(ip_address, ("203.0.113.7", "198.51.100.9", "10.0.0.5", "10.9.9.9", "2001:db8::7")))
PORTS = (22, 53, 80, 443, 8443)
