"""A flow: what somebody in the sandbox wants to reach, as far as it is known by now."""

from typing import NamedTuple

from belljar.names import Address
from belljar.policy.model import Protocol


class Flow(NamedTuple):
    """A destination with everything that a decision may depend on.

    The same flow is decided more than once, as more is known: when its name is asked for in DNS, when a connection
    is made, when the name has been resolved, and again whenever the policy changes. (A named tuple, because there are
    several for every connection, and each is made and hashed in a third of the time of a frozen dataclass.)
    """

    name: str | None
    """The canonical name, where the destination is known by name."""

    port: int | None
    """None while only a name is asked for: then the question is whether any port could be reached."""

    protocol: Protocol | None = Protocol.TCP
    """None while only a name is asked for."""

    addresses: tuple[Address, ...] = ()
    """Without a name, the one address that is dialled; with one, what the name was resolved to."""

    claimed: str | None = None
    """The canonical name that the client gave in TLS or HTTP. It can narrow a grant, never widen one."""

    own: tuple[Address, ...] = ()
    """Those of the addresses that lead to the gateway's own host, as its kernel says when they are dialled."""

    def __str__(self) -> str:
        shown = self.name or ", ".join(map(str, self.addresses)) or "an unnamed destination"
        if self.port is not None:
            shown = f"[{shown}]:{self.port}" if ":" in shown else f"{shown}:{self.port}"
        return f"{shown}/udp" if self.protocol is Protocol.UDP else shown


def to_name(name: str, port: int, protocol: Protocol = Protocol.TCP, addresses: tuple[Address, ...] = ()) -> Flow:
    """Return a flow to a canonical name, with the addresses it was resolved to once they are known."""
    return Flow(name, port, protocol, addresses)


def to_address(address: Address, port: int, protocol: Protocol = Protocol.TCP) -> Flow:
    """Return a flow to an address that was dialled as such."""
    return Flow(None, port, protocol, (address,))


def question(name: str) -> Flow:
    """Return the flow that a DNS question announces."""
    return Flow(name, None, None)
