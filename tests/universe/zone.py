"""The names of the universe. A name that is not here does not exist."""

from dataclasses import dataclass
from enum import Enum, auto

from tests.universe import addresses


class Manner(Enum):
    """How the nameserver answers."""

    PLAIN = auto()
    IN_TURN = auto()
    """One of the addresses in each answer: the next one the next time."""
    TRUNCATED = auto()
    """Over UDP only a hint to ask again over TCP."""
    FAILING = auto()
    """SERVFAIL."""
    SILENT = auto()
    """Not at all."""
    FORGED = auto()
    """Twice: first a forgery with another id, which says `addresses.EVIL`, then the answer."""
    GARBLED = auto()
    """With bytes that are no DNS message."""


@dataclass(frozen=True)
class Entry:
    """What the nameserver says of a name."""

    addresses: tuple[str, ...] = ()
    ttl: int = 300
    alias: str = ""
    text: str = ""
    manner: Manner = Manner.PLAIN


def at(*where: str, ttl: int = 300, manner: Manner = Manner.PLAIN) -> Entry:
    """Return the entry of a name that is at these addresses."""
    return Entry(addresses=where, ttl=ttl, manner=manner)


ZONE = {
    # As it should be.
    "plain.test": at(addresses.PUBLIC, addresses.PUBLIC_V6),
    "www.plain.test": at(addresses.PUBLIC),
    "other.test": at(addresses.OTHER_PUBLIC),
    "v4.test": at(addresses.PUBLIC),
    "v6.test": at(addresses.PUBLIC_V6),
    "many.test": at("203.0.113.10", "203.0.113.11", "203.0.113.12", "203.0.113.13"),
    "hundred.test": at(*(f"203.0.113.{number}" for number in range(100, 200))),
    "dead-first.test": at(addresses.BLACK_HOLE, addresses.PUBLIC),
    "refusing-first.test": at(addresses.REFUSING, addresses.PUBLIC),
    "dead-v6.test": at(addresses.BLACK_HOLE_V6, addresses.PUBLIC),
    "dead.test": at(addresses.BLACK_HOLE),
    "one.cdn.test": at(addresses.CDN),
    "two.cdn.test": at(addresses.CDN),
    "*.wild.test": at(addresses.PUBLIC),
    "*.machine.test": at(addresses.MACHINE),
    "evil.test": at(addresses.EVIL, addresses.EVIL_V6),
    "*.evil.test": at(addresses.EVIL),
    "nothing.test": Entry(),
    "text.test": Entry(text="some text"),
    # Aliases.
    "alias.test": Entry(alias="plain.test"),
    "long-alias.test": Entry(alias="alias.test"),
    "alias-to-evil.test": Entry(alias="evil.test"),
    "alias-to-private.test": Entry(alias="private.test"),
    "alias-to-nowhere.test": Entry(alias="nowhere.test"),
    "loop.test": Entry(alias="pool.test"),
    "pool.test": Entry(alias="loop.test"),
    # Where no name should lead.
    "private.test": at(addresses.PRIVATE),
    "private-v6.test": at(addresses.PRIVATE_V6),
    "loopback.test": at("127.0.0.1", "::1"),
    "unspecified.test": at("0.0.0.0", "::"),
    "metadata.test": at(addresses.METADATA),
    "metadata-elsewhere.test": at("100.100.100.200"),
    "gateway.test": at(addresses.GATEWAY, addresses.GATEWAY_V6),
    "multicast.test": at("224.0.0.251", "ff02::fb"),
    "mixed.test": at(addresses.PUBLIC, addresses.PRIVATE),
    "mixed-families.test": at(addresses.PUBLIC, "::1"),
    "mapped.test": at("::ffff:10.9.0.1"),
    "nat64.test": at("64:ff9b::a9fe:a9fe"),
    "6to4.test": at("2002:a9fe:a9fe::1"),
    # Names that change.
    "rebinding.test": at(addresses.PUBLIC, addresses.PRIVATE, ttl=0, manner=Manner.IN_TURN),
    "moving.test": at(addresses.PUBLIC, addresses.OTHER_PUBLIC, ttl=0, manner=Manner.IN_TURN),
    "zero-ttl.test": at(addresses.PUBLIC, ttl=0),
    "huge-ttl.test": at(addresses.PUBLIC, ttl=2**31 - 1),
    # A nameserver in trouble.
    "truncated.test": at(addresses.PUBLIC, manner=Manner.TRUNCATED),
    "failing.test": Entry(manner=Manner.FAILING),
    "silent.test": Entry(manner=Manner.SILENT),
    "forged.test": at(addresses.PUBLIC, manner=Manner.FORGED),
    "garbled.test": Entry(manner=Manner.GARBLED),
}
