"""The lines of a squid.conf, and the access lists they define."""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from belljar.policy.importers.findings import SourcePlace


class Directive(NamedTuple):
    """One line: a word and what follows it."""

    place: SourcePlace
    name: str
    words: tuple[str, ...]


class AclKind(Enum):
    """What an access list looks at, as far as it matters here."""

    NAMES = auto()
    RANGES = auto()
    PORTS = auto()
    TUNNELS = auto()
    """The method CONNECT: TLS, or anything else that the client cares to speak."""
    EVERYTHING = auto()
    CLOSED = auto()
    """What no policy opens: this machine, link-local addresses, Squid's own pages."""
    OTHER = auto()
    """Who asks, when, for which path: nothing that a policy can look at."""


class Acl(NamedTuple):
    """An access list: a request fits if it fits any of the values."""

    kind: AclKind
    values: tuple[tuple[SourcePlace, str], ...] = ()


_KINDS: Final = {"dstdomain": AclKind.NAMES, "dst": AclKind.RANGES, "port": AclKind.PORTS}
_SINGLE_VALUES: Final = {("method", "CONNECT"): AclKind.TUNNELS, ("proto", "cache_object"): AclKind.CLOSED}
_BUILT_IN: Final = {
    "all": Acl(AclKind.EVERYTHING),
    "CONNECT": Acl(AclKind.TUNNELS),
    "manager": Acl(AclKind.CLOSED),
    "to_localhost": Acl(AclKind.CLOSED),
    "to_linklocal": Acl(AclKind.CLOSED),
}


def read_directives(text: str) -> list[Directive]:
    """Return the lines of a configuration, without comments and with continued lines joined."""
    directives = []
    words: list[str] = []
    first = 1
    for number, line in enumerate([*text.splitlines(), ""], start=1):  # the empty line ends one that is continued
        first = first if words else number
        words += line.removesuffix("\\").split()
        if not line.endswith("\\"):
            if said := _without_comment(words):
                directives.append(Directive(SourcePlace(f"line {first}", first), said[0], tuple(said[1:])))
            words = []
    return directives


def read_acls(directives: Iterable[Directive]) -> dict[str, Acl]:
    """Return the access lists by name. A list may be defined in several lines, and has the values of all of them."""
    acls: dict[str, Acl] = {}
    for directive in directives:
        if directive.name == "acl" and len(directive.words) >= 2:
            name, kind, *values = directive.words
            acl = _acl(kind, [(directive.place, value) for value in values])
            known = acls.get(name, Acl(acl.kind))
            same = known.kind is acl.kind
            acls[name] = Acl(acl.kind, known.values + acl.values) if same else Acl(AclKind.OTHER)
    return _BUILT_IN | {name: acl for name, acl in acls.items() if name != "all"}


def _acl(kind: str, values: list[tuple[SourcePlace, str]]) -> Acl:
    if len(values) == 1 and (single := _SINGLE_VALUES.get((kind, values[0][1]))):
        return Acl(single)
    while values and values[0][1].startswith("-"):  # options, such as -n
        values = values[1:]
    return Acl(_KINDS.get(kind, AclKind.OTHER), tuple(values))


def _without_comment(words: list[str]) -> list[str]:
    comment = next((index for index, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:comment]
