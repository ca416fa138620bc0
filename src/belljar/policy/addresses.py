"""The address guard: which addresses a sandbox may be led to, whatever a name resolves to.

Every address belongs to one of three classes. *Public* addresses follow the policy. *Private* ones need an explicit
opening (a CIDR, or ``allow_private``). *Never* means never: loopback, link-local and with it the clouds' metadata
services, multicast, ranges that lead nowhere. No policy opens those.

An IPv4 address that travels inside an IPv6 one (mapped, NAT64, 6to4, Teredo and so on) is taken out first, so that
``64:ff9b::a9fe:a9fe`` is recognised as the metadata address it leads to.
"""

from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from belljar.names import Address
from belljar.policy.match import CidrIndex
from belljar.policy.model import Network


class AddressClass(StrEnum):
    """How far an address can be opened."""

    PUBLIC = "public"
    PRIVATE = "private"
    NEVER = "never"


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(map(ip_network, texts))


_PRIVATE: Final = _networks("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")

_NEVER: Final = _networks(
    "0.0.0.0/8",  # this network
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local, metadata services of most clouds
    "192.0.0.0/24",  # IETF protocol assignments, Oracle's metadata service
    "192.88.99.0/24",  # 6to4 relays
    "198.18.0.0/15",  # benchmarks; the gateway's virtual addresses
    "224.0.0.0/3",  # multicast, reserved, broadcast
    "100.100.100.200/32",  # Alibaba's metadata service
    "168.63.129.16/32",  # Azure's wire server
    "::/127",  # unspecified, loopback
    "fd62:656c:6c6a::/64",  # the gateway's virtual addresses
    "2001:2::/48",  # benchmarks
    "2001:10::/28",  # ORCHID, never routed
    "2001:20::/28",  # ORCHIDv2, never routed
    "3fff::/20",  # documentation, never routed
    "fd00:ec2::/32",  # AWS' metadata service
    "fd20:ce::254/128",  # Google's metadata service
    "fd00:c1::a9fe:a9fe/128",  # Oracle's metadata service
    "fd00:42::42/128",  # Scaleway's metadata service
)

# The documentation ranges 192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24 and 2001:db8::/32 are public on purpose:
# nothing lives there, so that is where the tests build their internet.

_CLASSES: Final = CidrIndex(
    [(network, AddressClass.NEVER) for network in _NEVER] + [(network, AddressClass.PRIVATE) for network in _PRIVATE]
)

_SPECIAL_OCTETS: Final = frozenset(
    octet
    for network in (*_NEVER, *_PRIVATE)
    if network.version == 4
    for octet in range(int(network.network_address) >> 24, (int(network.broadcast_address) >> 24) + 1)
)
"""A quick way to tell that an IPv4 address is public: most begin otherwise."""

# Prefixes in which the last 32 bits are an IPv4 address: compatible, mapped, translated (RFC 2765), NAT64.
_IPV4_AT_THE_END: Final = tuple(
    int(IPv6Address(prefix)) >> 32 for prefix in ("::", "::ffff:0:0", "::ffff:0:0:0", "64:ff9b::")
)
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_6TO4: Final = 0x2002
_TEREDO: Final = 0x2001_0000
_ISATAP: Final = 0x5EFE
_ISATAP_MASK: Final = 0xFDFF_FFFF  # 0:5efe, or 200:5efe where the IPv4 address is unique in the world

_EMBEDDING: Final = tuple(
    IPv6Network(text)
    for text in ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "2002::/16", "2001::/32")
)
_GLOBAL_UNICAST_BITS: Final = 0b001
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_UNIQUE_LOCAL: Final = IPv6Network("fc00::/7")
_NEVER_V4: Final = tuple(network for network in _NEVER if isinstance(network, IPv4Network))
_NEVER_V6: Final = tuple(network for network in _NEVER if isinstance(network, IPv6Network))


def unwrap(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address carries, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    number = int(address)
    if number >> 32 in _IPV4_AT_THE_END and number > 1:
        return IPv4Address(number & 0xFFFF_FFFF)
    if number >> 112 == _6TO4:
        return IPv4Address(number >> 80 & 0xFFFF_FFFF)
    if number >> 96 == _TEREDO:
        return IPv4Address(~number & 0xFFFF_FFFF)
    return address


def unmapped(network: Network) -> Network:
    """Return the IPv4 range that an IPv4-mapped one stands for (``::ffff:10.0.0.0/104``), or the range itself."""
    if isinstance(network, IPv6Network) and network.subnet_of(_MAPPED):
        return IPv4Network((int(network.network_address) & 0xFFFF_FFFF, network.prefixlen - 96))
    return network


def classify(address: Address) -> AddressClass:
    """Tell how far an address can be opened."""
    if isinstance(address, IPv4Address):
        return _class_of(address)
    found = _class_of(unwrap(address))
    if int(address) >> 32 & _ISATAP_MASK == _ISATAP:
        # ISATAP tunnels to the IPv4 address at the end. But it does so under a prefix that anyone may own, so that
        # address is not what a range grants: it only makes the class stricter.
        tunnel_end = _class_of(IPv4Address(int(address) & 0xFFFF_FFFF))
        return found if found is AddressClass.NEVER or tunnel_end is AddressClass.PUBLIC else tunnel_end
    return found


def _class_of(address: Address) -> AddressClass:
    if isinstance(address, IPv4Address) and int(address) >> 24 not in _SPECIAL_OCTETS:
        return AddressClass.PUBLIC
    for found in _CLASSES.containing(address):
        return found
    if isinstance(address, IPv6Address) and int(address) >> 125 != _GLOBAL_UNICAST_BITS:
        return AddressClass.NEVER
    return AddressClass.PUBLIC


def carries_ipv4_only(network: Network) -> bool:
    """Tell whether an IPv6 range consists of wrapped IPv4 addresses, so that only its IPv4 form can match."""
    return isinstance(network, IPv6Network) and any(network.subnet_of(range_) for range_ in _EMBEDDING)


def can_never_be_opened(network: Network) -> bool:
    """Tell whether every address of a range is of the class never."""
    if isinstance(network, IPv4Network):
        return any(network.subnet_of(range_) for range_ in _NEVER_V4)
    if any(network.subnet_of(range_) for range_ in _NEVER_V6):
        return True
    return not (network.overlaps(_GLOBAL_UNICAST) or network.overlaps(_UNIQUE_LOCAL) or carries_ipv4_only(network))
