"""Single entries of a document: a domain pattern, a range of addresses, a range of ports.

Each reader takes what stood in the document and returns a value of `model`, or raises EntryError with what is
wrong and what to write instead. The caller knows where the entry stands and adds that.
"""

import re
from collections.abc import Iterable
from functools import cache
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final

from belljar.names import SpellingError, parse_address, parse_port, read_name
from belljar.policy.addresses import unmapped
from belljar.policy.model import DomainPattern, Network, PortRange, Protocol, Scope

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


class EntryError(ValueError):
    """An entry that cannot be accepted; the message says why and what to write instead."""


_RULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/-]{0,62}", re.ASCII)
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?(?:/([a-z]+))?", re.ASCII)
_PREFIX_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_PORT_FORMS: Final = 'write 443, "8000-8100" or "123/udp", with numbers from 1 to 65535'
_EXACT: Final = Scope.EXACT  # which takes its time to look up, a hundred thousand times


def read_domain(entry: object, *, grants: bool) -> DomainPattern:
    """Read ``x``, ``*.x`` or ``.x``, each with an optional ``:port``.

    A pattern that grants must not cover everything below a public suffix; one that denies may.
    """
    if not isinstance(entry, str):
        raise EntryError("is not text; write a domain name, in quotes")
    scope, rest = _split_scope(entry) if entry.startswith(("*", ".")) else (_EXACT, entry)
    name, colon, port = rest.partition(":")
    try:
        pattern = DomainPattern(read_name(name), scope, parse_port(port) if colon else None)
    except SpellingError as error:
        raise EntryError(_why_not_a_domain(entry, str(error), grants=grants)) from None
    if grants and scope is not _EXACT and _is_public_suffix(pattern.name):
        raise EntryError(
            f"would grant every site under {pattern.name}, a suffix under which anyone can register; "
            "name the hosts you mean, such as "
            f'"api.example.{pattern.name}" or "*.example.{pattern.name}"'
        )
    return pattern


def read_cidr(entry: object) -> Network:
    """Read a range in canonical form; a bare address means that address alone, a mapped one its IPv4 form."""
    if not isinstance(entry, str):
        raise EntryError('is not text; write a range such as "10.2.0.0/16", in quotes')
    text, slash, length = entry.partition("/")
    try:
        address = parse_address(text)
    except SpellingError as error:
        raise EntryError(f'{error}; write a range such as "10.2.0.0/16" or "2001:db8::/32"') from None
    if not slash:
        return unmapped(ip_network(address))
    if not _PREFIX_LENGTH.fullmatch(length) or int(length) > address.max_prefixlen:
        raise EntryError(
            f"has prefix length {length!r}; write a number from 0 to {address.max_prefixlen} after the slash"
        )
    network = ip_network(f"{address}/{length}", strict=False)
    if network.network_address != address:
        raise EntryError(f'has host bits set; did you mean "{network}" (the range) or "{address}" (the one address)?')
    return unmapped(network)


def read_port(entry: object) -> PortRange:
    """Read ``443``, ``"8000-8100"`` or ``"123/udp"``."""
    if isinstance(entry, bool) or not isinstance(entry, int | str):
        raise EntryError(f"is not a port; {_PORT_FORMS}")
    match = _RANGE.fullmatch(str(entry))
    if not match:
        raise EntryError(f"is not a port; {_PORT_FORMS}")
    first, last, protocol = match.groups()
    try:
        ports = parse_port(first), parse_port(last or first)
    except SpellingError:
        raise EntryError(f"is out of range; {_PORT_FORMS}") from None
    if ports[0] > ports[1]:
        raise EntryError(f'is a range that ends before it begins; did you mean "{ports[1]}-{ports[0]}"?')
    return PortRange(*ports, read_protocol(protocol) if protocol else None)


def read_host_port(entry: object) -> PortRange:
    """Read a port of the host; its services are reached over TCP."""
    ports = read_port(entry)
    if ports.protocol is Protocol.UDP:
        raise EntryError("is UDP, and the host's services are reached over TCP only; delete it")
    return PortRange(ports.first, ports.last)


def read_protocol(entry: object) -> Protocol:
    """Read ``tcp`` or ``udp``."""
    if entry in ("tcp", "udp"):
        return Protocol(entry)
    raise EntryError('is not a known protocol; write "tcp" or "udp"')


def read_rule_name(entry: object) -> str:
    """Read the name of a rule."""
    if isinstance(entry, str) and _RULE_NAME.fullmatch(entry):
        return entry
    raise EntryError("is not a name; write up to 63 letters, digits, spaces and . _ / -, no sign first")


def _why_not_a_domain(entry: str, problem: str, *, grants: bool) -> str:
    """Recognise what was meant, where a better remedy than "not a name" can be given."""
    if not entry.strip():
        return "is blank; write a domain name or delete the entry"
    if grants and entry.startswith(("127.", "[::1]", "::1")) and _is_address(entry.partition("/")[0]):
        return f"is the sandbox itself to programs inside; for a port of this machine, {_host_port(entry)}"
    if _is_address(entry.partition("/")[0]):
        return "is an IP address; addresses belong in allowed_cidrs, denied_cidrs or a rule's cidrs"
    if "/" in entry:
        return "is a URL or a path; write the host name alone, such as api.example.org"
    if "@" in entry:
        return 'has a user name; write what stands after the "@"'
    if entry.partition(":")[0] in ("*", "*."):
        mode = "allow-all" if grants else "block-all"
        return f'would match every name; name the domains, or use "mode: {mode}"'
    if "*" in entry:
        return 'has a "*" that is not a whole first label; write "*.example.org" for all names below it'
    if problem.startswith("ends in a number"):
        return f"{problem}; write a name, or the address as four decimal numbers in allowed_cidrs"
    if problem.startswith("port"):
        return f"{problem}; write a number after the name, such as db.example.org:5432"
    return f"{problem}; write a name such as api.example.org"


def _host_port(entry: str) -> str:
    """Return how to open the port of this machine that an address with a port means."""
    port = entry.rpartition(":")[2] if entry.startswith("[") or entry.count(":") == 1 else ""
    return f"list {port if port.isdecimal() else 'it'} in host_ports"


def _is_address(entry: str) -> bool:
    for text in (entry, entry.strip("[]"), entry.rpartition(":")[0].strip("[]")):
        try:
            parse_address(text)
        except SpellingError:
            continue
        return True
    return False


def _split_scope(entry: str) -> tuple[Scope, str]:
    if entry.startswith("*."):
        return Scope.BELOW, entry[2:]
    if entry.startswith("."):
        return Scope.WITHIN, entry[1:]
    return Scope.EXACT, entry


def _is_public_suffix(name: str) -> bool:
    return bool(_suffixes().is_public(name))


@cache
def _suffixes() -> "PublicSuffixList":
    # The list takes 30 ms to read, and most policies need it never.
    from publicsuffixlist import PublicSuffixList  # noqa: PLC0415

    return PublicSuffixList()


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return a hint at the known word that is most like another one, in brackets; nothing if none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - for who has mistyped

    close = get_close_matches(str(word).lower(), list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
