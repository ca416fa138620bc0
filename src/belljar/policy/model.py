"""The policy document as values: what a file says, checked and in canonical spelling.

Everything here is immutable and compares by value. How text becomes these values is `parse`, how they become text
again is `render`, what they mean is `decide`.
"""

from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:  # most policies have none
    from belljar.policy.services import Service

Network: TypeAlias = IPv4Network | IPv6Network


class Mode(StrEnum):
    """What happens to a destination that no entry mentions."""

    BLOCK_ALL = "block-all"
    ALLOW_ALL = "allow-all"


class Action(StrEnum):
    """What a rule or a decision says."""

    ALLOW = "allow"
    DENY = "deny"


class Protocol(StrEnum):
    """The transport of a flow."""

    TCP = "tcp"
    UDP = "udp"


class Scope(StrEnum):
    """Which names a pattern covers, seen from the name it is written with; the value is its written prefix."""

    EXACT = ""
    BELOW = "*."
    WITHIN = "."


class DomainPattern(NamedTuple):
    """``x``, ``*.x`` (below x) or ``.x`` (x and below), each with an optional port of its own.

    (A named tuple, because a policy may have a hundred thousand of them.)
    """

    name: str
    scope: Scope = Scope.EXACT
    port: int | None = None

    def __str__(self) -> str:
        if self.port is None:
            return self.scope + self.name if self.scope else self.name
        return f"{self.scope.value}{self.name}:{self.port}"


class PortRange(NamedTuple):
    """``443``, ``8000-8100``, ``123/udp``. Without a protocol, what it covers depends on where it stands."""

    first: int
    last: int
    protocol: Protocol | None = None

    def __str__(self) -> str:
        written = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return written if self.protocol is None else f"{written}/{self.protocol}"


class Egress(NamedTuple):
    """The six lists. ``allowed_*`` count in block-all, ``denied_*`` in allow-all."""

    allowed_domains: tuple[DomainPattern, ...] = ()
    allowed_cidrs: tuple[Network, ...] = ()
    allowed_ports: tuple[PortRange, ...] = ()
    denied_domains: tuple[DomainPattern, ...] = ()
    denied_cidrs: tuple[Network, ...] = ()
    denied_ports: tuple[PortRange, ...] = ()


class Rule(NamedTuple):
    """One ordered rule: it speaks of a destination (domains or cidrs), its port and its protocol."""

    action: Action
    name: str | None = None
    domains: tuple[DomainPattern, ...] = ()
    cidrs: tuple[Network, ...] = ()
    ports: tuple[PortRange, ...] = ()
    protocol: Protocol | None = None


class PresetUse(NamedTuple):
    """A preset by name, and the hosts named in place of those that the machine's tool would be asked for."""

    name: str
    hosts: tuple[DomainPattern, ...] = ()


class Policy(NamedTuple):
    """A whole document."""

    mode: Mode
    egress: Egress = Egress()
    rules: tuple[Rule, ...] = ()
    presets: tuple[PresetUse, ...] = ()
    host_ports: tuple[PortRange, ...] = ()
    services: "tuple[Service, ...]" = ()
    allow_private: bool = False
