"""From the URLs in a configuration to hosts that a policy can name.

A URL may carry credentials: nothing but its host and port ever leaves this module.
"""

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from belljar.discovery.model import ToolHost
from belljar.discovery.running import NoAnswerError
from belljar.names import Host, parse_authority

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Named(NamedTuple):
    """A URL, or what stands in the place of one, and where it was found."""

    url: str
    why: str


def locate(url: str) -> tuple[Host, int] | None:
    """Return the host and port of an http or https URL; None for anything else, such as a path or a word."""
    try:
        parts = urlsplit(url.strip())
        host, port = parse_authority(parts.netloc.rpartition("@")[2])
    except ValueError:  # from urlsplit, or a SpellingError
        return None
    default = _DEFAULT_PORTS.get(parts.scheme)
    return None if default is None else (host, port or default)


def hosts_of(named: Iterable[Named], source: str) -> tuple[ToolHost, ...]:
    """Return each named host and port once, with every reason there is for it.

    Raises NoAnswerError if there is none, and says so if there are addresses only: no preset can grant those.
    """
    reasons: dict[tuple[str, int], set[str]] = {}
    remedies: set[str] = set()
    for url, why in named:
        match locate(url):
            case ("localhost", port):
                remedies.add(f"localhost is this machine: put {port} in host_ports")
            case (str(host), port):
                reasons.setdefault((host, port), set()).add(_printable(why))
            case (address, port) if address.is_loopback:
                remedies.add(f"{address} is this machine: put {port} in host_ports")
            case (address, _):
                remedies.add(f"{address} is an address: put it in egress.allowed_cidrs")
    if not reasons:
        remedy = f" ({'; '.join(sorted(remedies))})" if remedies else ""
        raise NoAnswerError(f"no host is named in {source}{remedy}")
    return tuple(ToolHost(host, port, ", ".join(sorted(whys))) for (host, port), whys in sorted(reasons.items()))


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())
