"""Destinations as people write them, and what a policy says to each."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from belljar.errors import BelljarError
from belljar.names import Host, SpellingError, parse_address, parse_authority
from belljar.policy.compiled import CompiledPolicy
from belljar.policy.decide import Verdict, without_policy
from belljar.policy.flow import Flow, to_address, to_name
from belljar.policy.model import Protocol

DEFAULT_PORT: Final = 443
_NO_PORTS: Final[Mapping[str, int]] = MappingProxyType({})
_SCHEMES: Final = {
    "https": 443,
    "http": 80,
    "wss": 443,
    "ws": 80,
    "ssh": 22,
    "git": 9418,
    "ftp": 21,
    "smtp": 25,
    "postgres": 5432,
    "postgresql": 5432,
    "mysql": 3306,
    "redis": 6379,
    "mongodb": 27017,
}
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(?:[^/?#@\\]*@)?([^/?#]*)(?:[/?#].*)?", re.DOTALL)


class UnreadableDestinationError(BelljarError):
    """A destination that is not a host, an address or a URL."""


class Explanation(NamedTuple):
    """A destination as it was written, the flow it means, and the decision."""

    destination: str
    flow: Flow
    verdict: Verdict


def explain(policy: CompiledPolicy | None, destination: str) -> Explanation:
    """Decide a destination that a person wrote. Raises UnreadableDestinationError."""
    services = policy.services if policy is not None else {}
    flow = parse_destination(destination, {name: service.at for name, service in services.items()})
    return Explanation(destination, flow, policy.decide(flow) if policy is not None else without_policy(flow))


def parse_destination(text: str, ports: Mapping[str, int] = _NO_PORTS) -> Flow:
    """Read ``host``, ``host:port``, ``address:port``, ``[v6]:port`` or a URL; all but a URL can end in ``/udp``.

    Without a port, 443 is meant, or the one of a name that has one of its own. Raises UnreadableDestinationError.
    """
    url = _URL.fullmatch(text)
    try:
        if url:
            host, port = parse_authority(url[2])
            return _flow(host, port or _port_of_scheme(url[1].lower()), Protocol.TCP)
        destination, _, protocol = text.partition("/")
        host, port = _split(destination)
        return _flow(host, port or ports.get(str(host), DEFAULT_PORT), _protocol(protocol or "tcp"))
    except SpellingError as error:
        raise UnreadableDestinationError(
            f"{text!a} {error}; a destination is host, host:port, address:port, [v6]:port or a URL"
        ) from None


def _split(destination: str) -> tuple[Host, int | None]:
    if destination.count(":") > 1 and not destination.startswith("["):
        return parse_address(destination), None
    return parse_authority(destination)


def _protocol(suffix: str) -> Protocol:
    if suffix not in tuple(Protocol):
        raise SpellingError("has a path; write the host alone, or a URL with its scheme")
    return Protocol(suffix)


def _port_of_scheme(scheme: str) -> int:
    if scheme not in _SCHEMES:
        raise SpellingError(f"has the scheme {scheme}, whose port is not known here; write it after the host")
    return _SCHEMES[scheme]


def _flow(host: Host, port: int, protocol: Protocol) -> Flow:
    return to_name(host, port, protocol) if isinstance(host, str) else to_address(host, port, protocol)
