"""Names, addresses, policies and flows from small alphabets, so that entries and destinations meet often.

Policies and flows are made by plain functions of a random generator, and hypothesis draws only a seed and a size: that
is twenty times quicker than drawing each part, and a failure still shrinks to a small policy.
"""

from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from random import Random
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from belljar.names import Address
from belljar.policy import Action, Flow, Mode, Policy, Protocol
from belljar.policy.model import DomainPattern, Egress, Network, PortRange, PresetUse, Rule, Scope
from belljar.policy.services import Service, service_from_data

T = TypeVar("T")

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Machines are slow at times; no test is about time."""

often = settings(unhurried, max_examples=250)

PLAIN_NAMES = ("a.example", "b.a.example", "c.b.a.example", "ba.example", "b.example", "xn--bcher-kva.example")
"""Names that patterns of the same list cover, or miss by a label or a letter."""

SPECIAL_NAMES = (
    "x.internal",
    "y.x.internal",
    "kubernetes.default.svc",
    "host.belljar.internal",
    "host.docker.internal",
    "belljar.internal",
    "api.belljar.internal",
    "db.belljar.internal",
    "x.db.belljar.internal",
    "localhost",
    "a.localhost",
    "metadata.google.internal",
)
"""Names with a meaning of their own."""

NAMES = (*PLAIN_NAMES, *SPECIAL_NAMES)


def _addresses(text: str) -> tuple[Address, ...]:
    return tuple(map(ip_address, text.split()))


PLAIN_ADDRESSES = _addresses("192.0.2.1 192.0.2.129 198.51.100.7 2001:db8::1 2001:db8::8001 ::ffff:192.0.2.1")
PRIVATE_ADDRESSES = _addresses("10.0.0.1 10.0.0.129 192.168.1.1 fd00::1 64:ff9b::a00:1 2002:a00:1::")
NEVER_ADDRESSES = _addresses("127.0.0.1 169.254.169.254 fe80::1 ::1 ::ffff:127.0.0.1 100.100.100.200")
ADDRESSES = (*PLAIN_ADDRESSES, *PRIVATE_ADDRESSES, *NEVER_ADDRESSES)


def _networks(text: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, text.split()))


NETWORKS = _networks(
    """
    0.0.0.0/0 192.0.2.0/24 192.0.2.0/25 192.0.2.1/32 198.51.100.0/24 10.0.0.0/8 10.0.0.0/25 10.0.0.1/32 127.0.0.0/8
    169.254.169.254/32 ::/0 2001:db8::/32 2001:db8::/113 fd00::/8 64:ff9b::/96 2002:a00::/24
    """
)

PORTS = (22, 53, 80, 443, 5432, 8000, 8001)


def canonical_names() -> st.SearchStrategy[str]:
    """Names in their one spelling, from a few labels."""
    labels = st.lists(st.sampled_from(["a", "b", "ab", "a-b", "1", "b1", "xn--bcher-kva"]), max_size=4)
    return st.builds(lambda below, top: ".".join([*below, top]), labels, st.sampled_from(["a", "b", "ab", "example"]))


def addresses() -> st.SearchStrategy[Address]:
    """Any address at all."""
    v4 = st.integers(0, 2**32 - 1).map(IPv4Address)
    v6 = st.integers(0, 2**128 - 1).map(IPv6Address)
    return v4 | v6


def networks() -> st.SearchStrategy[Network]:
    """Any range, in canonical form; many are close to each other."""
    v4 = st.builds(lambda n, bits: _network(IPv4Address(n), bits), st.integers(0, 2**32 - 1), st.integers(0, 32))
    v6 = st.builds(lambda n, bits: _network(IPv6Address(n), bits), st.integers(0, 2**128 - 1), st.integers(0, 128))
    return v4 | v6


def _network(address: Address, bits: int) -> Network:
    return ip_network((address, bits), strict=False)


def seeded(make: Callable[[Random, int], T]) -> st.SearchStrategy[T]:
    """Return what `make` makes of a random generator and a size from 0 to 4."""
    return st.builds(lambda seed, size: make(Random(seed), size), st.integers(0, 2**64 - 1), st.integers(0, 4))


def several(random: Random, most: int, make: Callable[[Random], T]) -> tuple[T, ...]:
    return tuple(make(random) for _ in range(random.randint(0, most)))


def a_name(random: Random) -> str:
    return random.choice(random.choice([PLAIN_NAMES, PLAIN_NAMES, PLAIN_NAMES, SPECIAL_NAMES]))


def an_address(random: Random) -> Address:
    return random.choice(random.choices([PLAIN_ADDRESSES, PRIVATE_ADDRESSES, NEVER_ADDRESSES], [8, 4, 1])[0])


def a_port_range(random: Random, *, host: bool = False) -> PortRange:
    first, last = sorted(random.choices((1, *PORTS, 65535), k=2))
    if random.random() < 0.5:
        last = first
    return PortRange(first, last, None if host else random.choice([None, None, *Protocol]))


def a_pattern(random: Random, *, grants: bool) -> DomainPattern:
    """A pattern that a document may hold: one that grants does not reach below a public suffix."""
    name = a_name(random) if grants or random.random() < 0.9 else random.choice(["example", "internal"])
    scope = Scope.EXACT if grants and "." not in name else random.choice(list(Scope))
    return DomainPattern(name, scope, random.choice([None, None, None, 22, 443, 5432]))


def a_grant(random: Random) -> DomainPattern:
    return a_pattern(random, grants=True)


def a_denial(random: Random) -> DomainPattern:
    return a_pattern(random, grants=False)


def a_network(random: Random) -> Network:
    return random.choice(NETWORKS)


def an_egress(random: Random, size: int) -> Egress:
    return Egress(
        allowed_domains=several(random, size, a_grant),
        allowed_cidrs=several(random, size // 2, a_network),
        allowed_ports=several(random, size // 2, a_port_range),
        denied_domains=several(random, size // 2, a_denial),
        denied_cidrs=several(random, size // 2, a_network),
        denied_ports=several(random, size // 2, a_port_range),
    )


def a_rule(random: Random, size: int = 2) -> Rule:
    """A rule with at least one matcher, whose ports do not contradict its protocol."""
    action, protocol = random.choice(list(Action)), random.choice([None, None, *Protocol])
    domains = several(random, size, a_grant if action is Action.ALLOW else a_denial)
    cidrs = several(random, size // 2, a_network)
    ports = several(random, size, a_port_range)
    if protocol:
        ports = tuple(entry for entry in ports if entry.protocol in (None, protocol))
    if not (domains or cidrs or ports or protocol):
        protocol = Protocol.TCP
    return Rule(action, None, domains, cidrs, ports, protocol)


def a_preset_use(random: Random) -> PresetUse:
    """A preset that needs no tool to be asked."""
    if random.random() < 0.5:
        return PresetUse(random.choice(["anthropic", "github"]))
    return PresetUse(random.choice(["python", "node", "rust"]), (a_grant(random), *several(random, 1, a_grant)))


SERVICE_NAMES = ("api", "db", "anthropic", "openai", "no", "null", "y", "a-1")
TARGETS: tuple[dict[str, Any], ...] = (
    {"port": 5432},
    {"socket": "/run/a b/ü😀.sock"},
    {"address": "db.corp.example:5432"},
    {"address": "[2001:db8::1]:80"},
    {"address": "10.0.0.1:22"},
    {"url": "https://api.anthropic.com"},
    {"url": "http://127.0.0.1:8000/v1"},
)
OF_BROKERS: dict[str, tuple[Any, ...]] = {
    "header": ({}, {"x-api-key": "${KEY}", "1": 'a "b" \\c', "no": "- #: {}"}),
    "paths": (["POST /v1/*", "* /"],),
    "server_tools": ("allow",),
    "budget": ({"requests": 7}, {"dollars": 0.25, "input_tokens": 10**14, "at_once": 1}),
    "shared_budget": ({"group": "1", "dollars": 12.5}, {"group": "no", "bytes": 1}),
}


def a_service(random: Random, name: str) -> Service:
    """A service of any kind; those of providers need not say where they lead."""
    data = {} if name in ("anthropic", "openai") and random.random() < 0.5 else dict(random.choice(TARGETS))
    if random.random() < 0.5:
        data["at"] = random.choice(PORTS)
    if not data.keys() & {"port", "socket", "address"}:
        data.update({key: random.choice(values) for key, values in OF_BROKERS.items() if random.random() < 0.4})
    return service_from_data(name, data)


def some_services(random: Random, size: int) -> tuple[Service, ...]:
    return tuple(a_service(random, name) for name in random.sample(SERVICE_NAMES, k=random.randint(0, size)))


def a_policy(random: Random, size: int) -> Policy:
    """A policy that a document can hold, without presets."""
    names = random.sample([None, None, "one", "no", "a b/c", "7"], k=4)
    rules = several(random, size, a_rule)
    return Policy(
        mode=random.choice(list(Mode)),
        egress=an_egress(random, size),
        rules=tuple(rule._replace(name=name) for rule, name in zip(rules, names, strict=False)),
        host_ports=several(random, size // 2, lambda random: a_port_range(random, host=True)),
        services=some_services(random, size),
        allow_private=random.random() < 0.3,
    )


def a_policy_with_presets(random: Random, size: int) -> Policy:
    return a_policy(random, size)._replace(presets=several(random, size, a_preset_use))


def a_named_flow(random: Random, size: int = 2) -> Flow:
    """A connection to a name, before or after it was resolved."""
    return Flow(
        name=(name := a_name(random)),
        port=random.choice((1, 80, 443, *PORTS, 65535)),
        protocol=random.choice([Protocol.TCP, Protocol.TCP, Protocol.TCP, Protocol.UDP]),
        addresses=several(random, min(size, 2), an_address),
        claimed=random.choice([None, None, None, None, name, a_name(random)]),
    )


def an_address_flow(random: Random, size: int = 2) -> Flow:
    """A connection to an address, with or without a name that the client gives."""
    return Flow(
        name=None,
        port=random.choice((1, 80, 443, *PORTS, 65535)),
        protocol=random.choice([Protocol.TCP, Protocol.TCP, Protocol.TCP, Protocol.UDP]),
        addresses=(an_address(random),),
        claimed=a_name(random) if size and random.random() < 0.3 else None,
    )


def port_ranges(*, host: bool = False) -> st.SearchStrategy[PortRange]:
    return seeded(lambda random, _: a_port_range(random, host=host))


def patterns(*, grants: bool) -> st.SearchStrategy[DomainPattern]:
    return seeded(lambda random, _: a_pattern(random, grants=grants))


def cidrs() -> st.SearchStrategy[Network]:
    return st.sampled_from(NETWORKS)


def rules() -> st.SearchStrategy[Rule]:
    return seeded(a_rule)


def preset_uses() -> st.SearchStrategy[PresetUse]:
    return seeded(lambda random, _: a_preset_use(random))


def policies(*, presets: bool = False) -> st.SearchStrategy[Policy]:
    return seeded(a_policy_with_presets if presets else a_policy)


def named_flows() -> st.SearchStrategy[Flow]:
    return seeded(a_named_flow)


def address_flows() -> st.SearchStrategy[Flow]:
    return seeded(an_address_flow)


def flows() -> st.SearchStrategy[Flow]:
    """Connections of all kinds."""
    return named_flows() | address_flows()


def host_address_sets() -> st.SearchStrategy[tuple[Address, ...]]:
    return st.sampled_from([(), (), tuple(map(ip_address, ("198.51.100.7", "2001:db8::1")))])
