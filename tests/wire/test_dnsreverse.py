from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.wire.dns.reverse import reverse_address

NIBBLES = ".".join("0123456789abcdef" * 2)


@given(st.ip_addresses())
def test_every_address_is_found_under_its_name(address):
    assert reverse_address(address.reverse_pointer) == address


def test_the_address_is_read_backwards():
    assert reverse_address("7.2.0.192.in-addr.arpa") == ip_address("192.0.2.7")
    assert reverse_address(f"{NIBBLES}.ip6.arpa") == ip_address("fedc:ba98:7654:3210:fedc:ba98:7654:3210")


NOT_AN_ADDRESS = {
    "a host": "example.org",
    "no address": "in-addr.arpa",
    "a range": "2.0.192.in-addr.arpa",
    "five numbers": "1.7.2.0.192.in-addr.arpa",
    "a number over 255": "256.2.0.192.in-addr.arpa",
    "a leading zero": "07.2.0.192.in-addr.arpa",
    "an empty label": "7..0.192.in-addr.arpa",
    "a name in front": "a.7.2.0.192.in-addr.arpa",
    "a name behind": "7.2.0.192.in-addr.arpa.example.org",
    "a classless delegation": "0-25.2.0.192.in-addr.arpa",
    "a line feed behind": "7.2.0.192.in-addr.arpa\n",
    "another tree": "7.2.0.192.in-addr.example",
    "no address in IPv6": "ip6.arpa",
    "a range in IPv6": f"{NIBBLES[2:]}.ip6.arpa",
    "33 nibbles": f"0.{NIBBLES}.ip6.arpa",
    "two nibbles in a label": f"00.{NIBBLES[4:]}.ip6.arpa",
    "a letter beyond f": f"g.{NIBBLES[2:]}.ip6.arpa",
}


@pytest.mark.parametrize("name", NOT_AN_ADDRESS.values(), ids=NOT_AN_ADDRESS)
def test_other_names_stand_for_no_address(name):
    assert reverse_address(name) is None
