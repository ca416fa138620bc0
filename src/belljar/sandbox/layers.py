"""The layers that hold a sandbox, each by itself, and whether they do: told from what was seen, not from what was set.

Nothing that cannot be seen is taken for active: then nobody knows, and it says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

Sight = Mapping[str, Any]
"""What `belljar.sandbox.looking` returns of a process, or of a network."""

_NOBODY_ANSWERS: Final = "its doors are not served; see whether the server is well: GET /healthz"
_EVERYBODY: Final = 2**32 - 1
_CAPABILITIES: Final = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
_FILTERED: Final = "2"
_BROKEN: Final = "do not use it: delete it, and see what `belljar verify` says"


class LayerName(StrEnum):
    """What a layer is called."""

    NETWORK = "network"
    FIREWALL = "firewall"
    APPLICATION = "application"
    CAPABILITY = "capability"
    DNS = "dns"
    SECCOMP = "seccomp"
    USER_NAMESPACE = "user_namespace"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of one sandbox."""

    name: LayerName
    active: bool | None
    """None if that could not be found out."""

    evidence: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Observations:
    """What was seen of a sandbox."""

    processes: Mapping[str, Sight]
    """By what each is: the first process, a command."""

    network: Sight
    has_own_network: bool | None
    """Whether its network namespace is another than ours; None where we may not look."""


def unknown_layers(why: str) -> tuple[Layer, ...]:
    """Return all layers of a sandbox of which nothing can be seen."""
    return tuple(Layer(name, None, why) for name in LayerName)


def layers(seen: Observations, remedy_for_users: str) -> tuple[Layer, ...]:
    """Tell which layers are active; the remedy is for a sandbox whose users are the host's."""
    return (
        _network(seen),
        _tried(LayerName.FIREWALL, seen.network, _firewall),
        _tried(LayerName.APPLICATION, seen.network, _application),
        _of_processes(LayerName.CAPABILITY, seen, _capability),
        _tried(LayerName.DNS, seen.network, _dns),
        _of_processes(LayerName.SECCOMP, seen, _seccomp),
        _of_processes(LayerName.USER_NAMESPACE, seen, lambda sight: _user_namespace(sight, remedy_for_users)),
    )


@dataclass(frozen=True, slots=True)
class _Finding:
    active: bool | None
    evidence: str
    remedy: str | None = None


def _network(seen: Observations) -> Layer:
    if seen.has_own_network is False:
        return Layer(LayerName.NETWORK, active=False, evidence="it has the network of the host", remedy=_BROKEN)
    if ways_out := seen.network.get("ways_out"):
        evidence = f"it has an interface beside loopback: {', '.join(ways_out)}"
        return Layer(LayerName.NETWORK, active=False, evidence=evidence, remedy="make it with the isolation sealed")
    if ways_out is None:
        return Layer(LayerName.NETWORK, None, _why_not(seen.network))
    return Layer(LayerName.NETWORK, active=True, evidence="its network has no interface but loopback")


def _tried(name: LayerName, network: Sight, judge: Callable[[Sight], _Finding]) -> Layer:
    if network.get("ways_out") == []:
        found = judge(network)
    elif "ways_out" in network:
        found = _Finding(None, "not tried: what is sent could leave by its interface")
    else:
        found = _Finding(None, _why_not(network))
    return Layer(name, found.active, found.evidence, found.remedy)


def _firewall(network: Sight) -> _Finding:
    lost = [one["said"] for one in network["tcp"] if not one["led_elsewhere"]]
    if lost:
        evidence = f"a connection to nowhere is not led to the gateway: {lost[0]}"
        return _Finding(active=False, evidence=evidence, remedy=_BROKEN)
    if not all(one["refused"] for one in network["udp"]):
        return _Finding(active=False, evidence="a datagram to nowhere is not refused", remedy=_BROKEN)
    evidence = "connections to nowhere are led to the gateway's door, and datagrams are refused"
    return _Finding(active=True, evidence=evidence)


def _application(network: Sight) -> _Finding:
    others = [one["said"] for one in network["tcp"] if one["said"] != "reserved_address"]
    if not others:
        return _Finding(active=True, evidence="the gateway turned connections to nowhere away: reserved_address")
    evidence = f"no gateway turned a connection to nowhere away: {others[0]}"
    return _Finding(active=False, evidence=evidence, remedy=_NOBODY_ANSWERS)


def _dns(network: Sight) -> _Finding:
    if all(one["answered"] for one in network["dns"]):
        evidence = "a question to a name server that is not there was answered by the gateway: reserved_name"
        return _Finding(active=True, evidence=evidence)
    said = next(one["said"] for one in network["dns"] if not one["answered"])
    evidence = f"a question to a name server that is not there was not answered by the gateway: {said}"
    return _Finding(active=False, evidence=evidence, remedy=_NOBODY_ANSWERS)


def _of_processes(name: LayerName, seen: Observations, judge: Callable[[Sight], _Finding]) -> Layer:
    """Judge each process; what is wrong with one is wrong with the sandbox, and so is what is not known."""
    found = {
        who: _Finding(None, _why_not(sight)) if "error" in sight else judge(sight)
        for who, sight in seen.processes.items()
    }
    who, worst = min(found.items(), key=lambda item: _RANK[item[1].active])
    subject = " and ".join(found) if worst.active else who
    return Layer(name, worst.active, f"{subject}: {worst.evidence}", worst.remedy)


_RANK: Final = {False: 0, None: 1, True: 2}


def _capability(sight: Sight) -> _Finding:
    held = [name for name in _CAPABILITIES if int(sight[name], 16)]
    if held:
        evidence = ", ".join(f"{name} {sight[name]}" for name in held)
        return _Finding(active=False, evidence=f"has capabilities: {evidence}", remedy=_BROKEN)
    if sight["NoNewPrivs"] != "1":
        return _Finding(active=False, evidence="has none, but a program could give it some", remedy=_BROKEN)
    return _Finding(active=True, evidence="no capability, and no program can give it one (NoNewPrivs: 1)")


def _seccomp(sight: Sight) -> _Finding:
    if sight["Seccomp"] == _FILTERED:
        return _Finding(active=True, evidence="system calls are filtered (Seccomp: 2)")
    evidence = f"system calls are not filtered (Seccomp: {sight['Seccomp']})"
    return _Finding(active=False, evidence=evidence, remedy=_BROKEN)


def _user_namespace(sight: Sight, remedy: str) -> _Finding:
    users: Sequence[Sequence[int]] = sight["users"]
    if [0, 0, _EVERYBODY] in [list(line) for line in users]:
        return _Finding(active=False, evidence="users inside are the same on the host, root included", remedy=remedy)
    first, host, _ = users[0]
    return _Finding(active=True, evidence=f"user {first} inside is {host} outside")


def _why_not(sight: Sight) -> str:
    return f"could not be looked at: {sight.get('error', 'nothing was told')}"
