"""The names under which DNS keeps addresses: ``7.2.0.192.in-addr.arpa`` asks who 192.0.2.7 is."""

import re
from ipaddress import IPv6Address
from typing import Final

from belljar.names import Address, SpellingError, parse_ipv4

_IPV4: Final = re.compile(r"([0-9.]+)\.in-addr\.arpa", re.ASCII)
_IPV6: Final = re.compile(r"((?:[0-9a-f]\.){32})ip6\.arpa", re.ASCII)


def reverse_address(name: str) -> Address | None:
    """Return the address that a canonical name stands for; None if it is a range, or none at all."""
    if ipv6 := _IPV6.fullmatch(name):
        return IPv6Address(int(ipv6[1].replace(".", "")[::-1], 16))
    if ipv4 := _IPV4.fullmatch(name):
        return _ipv4_or_none(".".join(reversed(ipv4[1].split("."))))
    return None


def _ipv4_or_none(text: str) -> Address | None:
    try:
        return parse_ipv4(text)
    except SpellingError:
        return None
