"""Entries of other formats into Belljar's: names, addresses and ports, read narrowly to grant and broadly to deny.

Where a spelling has two readings, a grant takes the smaller and a denial the larger one: ``10.1.2.3/8`` grants the one
address and denies the whole range. A prefix or a port that the source matches with no name grants nothing, and denies
all that it could have meant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from belljar.names import Address, SpellingError, parse_address, parse_authority
from belljar.policy.addresses import can_never_be_opened, unmapped
from belljar.policy.importers.findings import WHOLE, Findings, SourcePlace, shown
from belljar.policy.language.entries import EntryError, read_domain, read_port
from belljar.policy.language.reading import snake_case
from belljar.policy.model import Action, DomainPattern, Egress, Network, PortRange, Scope
from belljar.policy.reserved import HOST_NAMES, is_never_name

T = TypeVar("T")
Entries: TypeAlias = Iterable[tuple[SourcePlace, Any]]

EVERYWHERE: Final[tuple[Network, ...]] = (ip_network("0.0.0.0/0"), ip_network("::/0"))
WEB_PORTS: Final = (PortRange(80, 80), PortRange(443, 443))


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a format writes names."""

    scopes: Mapping[Scope, Scope]
    """What it means by the prefix of a scope; a prefix that is missing here has no meaning there."""

    ports: bool = False
    """Whether ``name:port`` has a meaning."""


class Destinations(NamedTuple):
    """What a list of names came to: the names, and the addresses that stood among them."""

    domains: tuple[DomainPattern, ...]
    addresses: tuple[Network, ...]

    def granted(self, ports: tuple[PortRange, ...] = ()) -> Egress:
        """Return the lists that grant them; an address opens no more ports than a name does."""
        return Egress(self.domains, self.addresses, ports or (WEB_PORTS if self.addresses else ()))


class EntryReader:
    """Reads entries that grant, or entries that deny, and reports each that is lost or changed."""

    def __init__(self, dialect: Dialect, findings: Findings, action: Action) -> None:
        self._dialect = dialect
        self._findings = findings
        self._action = action
        self._grants = action is Action.ALLOW
        self._told_of_names_below = False

    def destinations(self, entries: Entries) -> Destinations:
        """Read names, and the addresses among them."""
        found = self._read(entries, self._destination)
        domains = tuple(entry for entry in found if isinstance(entry, DomainPattern))
        return Destinations(domains, tuple(entry for entry in found if not isinstance(entry, DomainPattern)))

    def networks(self, entries: Entries) -> tuple[Network, ...]:
        """Read ranges of addresses. To deny all of IPv4, as tools without IPv6 write it, is to deny every address."""
        found = self._read(entries, self._network)
        denies_all = not self._grants and any(network.prefixlen == 0 for network in found)
        return EVERYWHERE if denies_all else found

    def ports(self, entries: Entries) -> tuple[PortRange, ...]:
        """Read ports: numbers, text, and mappings of port, endPort and protocol."""
        return self._read(entries, lambda _, entry: read_port(_written_port(entry)))

    def _read(self, entries: Entries, read: Callable[[SourcePlace, Any], T]) -> tuple[T, ...]:
        found: dict[T, None] = {}
        for place, entry in entries:
            text = entry.strip() if isinstance(entry, str) else entry
            if text == "":
                self._findings.note(place, "is blank and was left out; nothing is granted or denied by it")
                continue
            try:
                found[read(place, text)] = None
            except EntryError as error:
                self._findings.lost(place, self._action, shown(entry), str(error))
        return tuple(found)

    def _destination(self, place: SourcePlace, entry: object) -> DomainPattern | Network:
        if (address := _split_address(entry)) is not None:
            return self._address(place, *address)
        pattern = read_domain(entry, grants=self._grants)
        scope = self._dialect.scopes.get(pattern.scope)
        if self._grants:
            self._check_grant(pattern, scope)
            if scope is not pattern.scope:
                kept = f'kept as "{pattern._replace(scope=Scope.WITHIN)}"'
                self._findings.note(place, f'"{pattern}" covers {pattern.name} itself there, and was {kept}')
        else:
            pattern = self._broad(place, pattern, scope)
        return pattern._replace(scope=Scope.WITHIN if scope is None else scope)

    def _check_grant(self, pattern: DomainPattern, scope: Scope | None) -> None:
        if scope is None:
            raise EntryError(f'begins with "{pattern.scope}", which matches no name in {self._findings.source}')
        if pattern.port and not self._dialect.ports:
            raise EntryError(f"has a port, which matches no name in {self._findings.source}; add it to the policy")
        if pattern.name in HOST_NAMES or is_never_name(pattern.name):
            raise EntryError(
                "is this machine, its host or a metadata service, which no domain opens; "
                "list services of the host in host_ports"
            )

    def _broad(self, place: SourcePlace, pattern: DomainPattern, scope: Scope | None) -> DomainPattern:
        if pattern.port and not self._dialect.ports:
            self._findings.note(place, f'"{pattern}" is denied on every port')
            pattern = pattern._replace(port=None)
        if scope is Scope.EXACT and not self._told_of_names_below:
            self._told_of_names_below = True
            self._findings.note(place, f'"{pattern}" is denied with all names below it, as names in a denial are here')
        return pattern

    def _address(self, place: SourcePlace, address: Address, port: int | None) -> Network:
        if port is not None and self._grants:
            raise EntryError("is an address with a port; add a rule with its cidrs and ports to the policy")
        network = self._openable(ip_network(address))
        everywhere = "" if port is None else ", on every port"
        self._findings.note(place, f'"{address}" is an address and was moved to the cidrs{everywhere}')
        return network

    def _network(self, place: SourcePlace, entry: object) -> Network:
        address, network = _loose_network(entry)
        if network.network_address != address:
            network = ip_network(address) if self._grants else network
            self._findings.note(place, f'{shown(entry)} has host bits set and was kept as "{network}"')
        return self._openable(network)

    def _openable(self, network: Network) -> Network:
        network = unmapped(network)
        if self._grants and can_never_be_opened(network):
            raise EntryError("is loopback, link-local or reserved, which no policy opens")
        return network


def note_web_ports(findings: Findings) -> None:
    """Note that a name opens fewer ports here than there."""
    findings.note(
        WHOLE,
        f"opens ports 80 and 443 of the domains, where {findings.source} opens every port; "
        "add others to allowed_ports, or write them after a name",
    )


def note_private_addresses(findings: Findings) -> None:
    """Note that a name does not lead to every address here."""
    findings.note(
        WHOLE,
        "keeps a name closed while it leads to a private address; add the address to allowed_cidrs, "
        "or write allow_private: true",
    )


def note_dialled_addresses(findings: Findings) -> None:
    """Note that a range does not open the names that lead into it."""
    findings.note(WHOLE, "opens its cidrs to those who dial an address; names that lead there need allowed_domains too")


def _split_address(entry: object) -> tuple[Address, int | None] | None:
    """Return an address and its port, if that is what an entry is."""
    if not isinstance(entry, str):
        return None
    try:
        return parse_address(entry), None
    except SpellingError:
        pass
    try:
        host, port = parse_authority(entry)
    except SpellingError:
        return None
    return None if isinstance(host, str) else (host, port)


def _loose_network(entry: object) -> tuple[Address, Network]:
    """Return the address that an entry begins with and the range that contains it; host bits may be set."""
    if not isinstance(entry, str):
        raise EntryError("is not text")
    text, _, length = entry.partition("/")
    if "." in length:
        raise EntryError('has a mask; write its length, such as "10.2.0.0/16"')
    try:
        return parse_address(text), ip_network(entry, strict=False)
    except ValueError:
        raise EntryError('is not a range of addresses; write one such as "10.2.0.0/16"') from None


def _written_port(entry: object) -> object:
    """Return a port in the way that Belljar writes it, where the source has a mapping for it."""
    if isinstance(entry, str):
        return entry.lower()
    if not isinstance(entry, dict):
        return entry
    keys = {snake_case(key): value for key, value in entry.items()}
    first, last, protocol = (keys.pop(key, None) for key in ("port", "end_port", "protocol"))
    if keys or not all(str(port).isdecimal() for port in (first, last or first)):
        raise EntryError("is not a port; write port, and if need be endPort and protocol")
    return f"{first}-{last or first}" + (f"/{protocol}".lower() if protocol else "")
