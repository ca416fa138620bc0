"""How a gateway reaches the network: whom it asks for addresses, and through which proxy it goes, if any.

Each setting has a variable of Belljar's own. The host's HTTPS_PROXY and NO_PROXY are not read: they are written for
programs that may go wherever they like, and each program reads them in a way of its own. Which way a sandbox's bytes
leave the host, and who gets to see them, is for the operator to say in so many words. `unused_proxy` is there to tell
those who expected otherwise, behind a corporate proxy, why nothing can be reached.
"""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final, NamedTuple

from belljar.errors import BelljarError
from belljar.gateway.upstream.hostfiles import Server, parse_server
from belljar.names import Address, SpellingError, parse_host
from belljar.policy.language.entries import EntryError, read_cidr
from belljar.policy.model import Network

if TYPE_CHECKING:
    from belljar.gateway.upstream.proxyurl import UpstreamProxy

RESOLVER: Final = "BELLJAR_RESOLVER"
UPSTREAM_PROXY: Final = "BELLJAR_UPSTREAM_PROXY"
NO_PROXY: Final = "BELLJAR_NO_PROXY"
PROXY_RESOLVES: Final = "BELLJAR_PROXY_RESOLVES"
VARIABLES: Final = (RESOLVER, UPSTREAM_PROXY, NO_PROXY, PROXY_RESOLVES)

_ANSWERS: Final = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}


class SettingError(BelljarError):
    """A setting of the gateway that cannot be read; the text names it and says what to write instead."""

    def __init__(self, setting: str, problem: str) -> None:
        super().__init__(f"{setting}: {problem}")


class Exceptions(NamedTuple):
    """The destinations that are dialled directly although there is a proxy."""

    everything: bool = False
    domains: tuple[str, ...] = ()
    """Each stands for itself and everything below."""

    ranges: tuple[Network, ...] = ()

    def cover_name(self, name: str) -> bool:
        """Tell whether a name is excepted."""
        return self.everything or any(name == domain or name.endswith(f".{domain}") for domain in self.domains)

    def cover_address(self, address: Address) -> bool:
        """Tell whether an address is excepted."""
        return self.everything or any(address in network for network in self.ranges)


class Settings(NamedTuple):
    """How a gateway reaches the network. By default: as its host does, without a proxy."""

    resolvers: tuple[Server, ...] = ()
    """The name servers; without any, those of the host's resolv.conf."""

    proxy: "UpstreamProxy | None" = None
    exceptions: Exceptions = Exceptions()
    proxy_resolves: bool = False
    """Whether names are left to the proxy, and with them the guard on addresses."""


DEFAULTS: Final = Settings()


def read_settings(environment: Mapping[str, str], *, resolver: str | None = None) -> Settings:
    """Read the settings from the environment, but for a resolver that was given outright. Raises SettingError."""
    source = (RESOLVER, environment.get(RESOLVER)) if resolver is None else ("--resolver", resolver)
    return Settings(
        resolvers=_read_resolvers(*source),
        proxy=_read_proxy(environment.get(UPSTREAM_PROXY)),
        exceptions=_read_exceptions(environment.get(NO_PROXY)),
        proxy_resolves=_read_answer(environment.get(PROXY_RESOLVES)),
    )


def unused_proxy(environment: Mapping[str, str], settings: Settings) -> str | None:
    """Return what to tell a user whose environment names a proxy that the gateway does not use."""
    named = next((name for name in ("HTTPS_PROXY", "https_proxy") if environment.get(name)), None)
    if named is None or settings.proxy is not None:
        return None
    return f"{named} is set, and the gateway does not use it; if it should, set {UPSTREAM_PROXY}=${named}"


def _read_resolvers(setting: str, text: str | None) -> tuple[Server, ...]:
    servers = []
    for item in _items(setting, text):
        try:
            servers.append(parse_server(item))
        except SpellingError as error:
            remedy = "write ADDRESS or ADDRESS:PORT, with an IPv6 address in brackets, such as [2001:db8::53]:53"
            raise SettingError(setting, f'"{item}" {error}; {remedy}') from None
    return tuple(servers)


def _read_proxy(text: str | None) -> "UpstreamProxy | None":
    if text is None:
        return None
    from belljar.gateway.upstream.proxyurl import parse_proxy  # noqa: PLC0415 - hardly anybody has one

    try:
        return parse_proxy(text)
    except SpellingError as error:
        raise SettingError(UPSTREAM_PROXY, str(error)) from None


def _read_exceptions(text: str | None) -> Exceptions:
    domains: list[str] = []
    ranges: list[Network] = []
    items = _items(NO_PROXY, text)
    for item in items:
        try:
            if "/" in item or ":" in item:
                ranges.append(read_cidr(item))
            elif item != "*":
                host = parse_host(item.removeprefix("*.").removeprefix("."))
                if isinstance(host, str):
                    domains.append(host)
                else:
                    ranges.append(ip_network(host))
        except (SpellingError, EntryError) as error:
            remedy = "an exception is a name, an address, a range such as 10.0.0.0/8, or *; it has no port"
            raise SettingError(NO_PROXY, f'"{item}" {error} ({remedy})') from None
    return Exceptions("*" in items, tuple(domains), tuple(ranges))


def _read_answer(text: str | None) -> bool:
    if text is None:
        return False
    try:
        return _ANSWERS[text.strip().lower()]
    except KeyError:
        raise SettingError(PROXY_RESOLVES, f'"{text}" is neither yes nor no; write one of them') from None


def _items(setting: str, text: str | None) -> list[str]:
    """Split a list at its commas; one that is there and has nothing in it is a mistake, not a default."""
    if text is None:
        return []
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        raise SettingError(setting, "is empty; give it a value, or do not set it at all")
    return items
