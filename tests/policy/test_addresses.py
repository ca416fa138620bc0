"""The address guard against two oracles: the standard library's registries, and a second naive implementation."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from belljar.names import Address
from belljar.policy import classify
from belljar.policy.addresses import can_never_be_opened, carries_ipv4_only, unwrap
from tests.policy.reference import DOCUMENTATION, NEVER, PRIVATE, address_class, inside, unwrapped
from tests.policy.strategies import addresses, networks, often, unhurried

IPV4 = {
    "never": """
        0.0.0.0 0.0.0.1 0.255.255.255 127.0.0.0 127.0.0.1 127.255.255.255 169.254.0.0 169.254.169.254 169.254.170.2
        169.254.255.255 192.0.0.0 192.0.0.192 192.0.0.255 192.88.99.1 198.18.0.0 198.19.255.255 224.0.0.1
        239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255 100.100.100.200 168.63.129.16
    """,
    "private": """
        10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.199 100.100.100.201 100.127.255.255 172.16.0.0 172.31.255.255
        192.168.0.0 192.168.255.255
    """,
    "public": """
        1.0.0.0 1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
        168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.0
        192.0.2.1 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 198.17.255.255 198.20.0.0 198.51.100.1
        203.0.113.1 223.255.255.255
    """,
}
IPV6 = {
    "never": """
        :: ::1 fe80::1 febf::1 fec0::1 ff02::1 ff0e::1 64:ff9b:1::1 64:ff9b:1::8.8.8.8 64:ff9b:0:1::808:808 100::1
        1::1 1fff::1 4000::1 5f00::1 8000::1 fbff::1 fe00::1 2001:2::1 2001:20::1 2001:2f:ffff::1 3fff::1 fd00:ec2::254
        fd00:ec2:ffff::1 fd20:ce::254 fd00:c1::a9fe:a9fe fd00:42::42 ::ffff:1:0:0:0 0:0:1::808:808
    """,
    "private": "fc00:: fc00::1 fd00::1 fd20:ce::253 fd20:ce::255 fd00:42::41 fd00:ec1::254 fd00:ec3::1 fdff:ffff::1",
    "public": "2001:db8::1 2000::1 2001:30::1 2003::1 2600::1 2606:4700::1111 2a00:1450::1 2001:4860:4860::8888 3ffe::",
}
SAMPLES = [
    (ip_address(text), kind) for samples in (IPV4, IPV6) for kind, texts in samples.items() for text in texts.split()
]


@pytest.mark.parametrize(("address", "kind"), SAMPLES, ids=str)
def test_classes(address, kind):
    assert classify(address) == kind


EMBEDDINGS = {
    "mapped": lambda v4: IPv6Address(f"::ffff:{v4}"),
    "compatible": lambda v4: IPv6Address(f"::{v4}"),
    "translated": lambda v4: IPv6Address(f"::ffff:0:{v4}"),
    "NAT64": lambda v4: IPv6Address(f"64:ff9b::{v4}"),
    "6to4": lambda v4: IPv6Address(0x2002 << 112 | int(v4) << 80),
    "6to4 with a host": lambda v4: IPv6Address(0x2002 << 112 | int(v4) << 80 | 0x1_0000_0808_0808),
    "Teredo": lambda v4: IPv6Address(0x2001_0000 << 96 | 0x4136_E378_8000_63BF << 32 | int(v4) ^ 0xFFFF_FFFF),
}


@pytest.mark.parametrize("embed", EMBEDDINGS.values(), ids=EMBEDDINGS)
@pytest.mark.parametrize(("address", "kind"), [(a, kind) for a, kind in SAMPLES if a.version == 4], ids=str)
def test_an_address_is_what_it_carries(address, kind, embed):
    wrapped = embed(address)
    if wrapped in (IPv6Address("::"), IPv6Address("::1")):
        assert unwrap(wrapped) == wrapped
    else:
        assert unwrap(wrapped) == address
    assert classify(wrapped) == kind


@unhurried
@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_wrapping_agrees_with_the_standard_library(address):
    assert EMBEDDINGS["mapped"](address).ipv4_mapped == unwrap(EMBEDDINGS["mapped"](address)) == address
    assert EMBEDDINGS["6to4"](address).sixtofour == unwrap(EMBEDDINGS["6to4"](address)) == address
    teredo = EMBEDDINGS["Teredo"](address)
    assert teredo.teredo is not None
    assert teredo.teredo[1] == unwrap(teredo) == address


@pytest.mark.parametrize("isatap", ["0:5efe", "200:5efe"])
@pytest.mark.parametrize(
    ("prefix", "end", "kind"),
    [
        ("2001:db8:0:0", "127.0.0.1", "never"),
        ("2001:db8:0:0", "169.254.169.254", "never"),
        ("2001:db8:0:0", "10.0.0.1", "private"),
        ("2001:db8:0:0", "192.0.2.1", "public"),
        ("fd00:0:0:1", "169.254.169.254", "never"),
        ("fd00:0:0:1", "192.0.2.1", "private"),
        ("fe80:0:0:0", "192.0.2.1", "never"),
    ],
)
def test_the_end_of_an_isatap_tunnel_closes_and_never_opens(prefix, end, kind, isatap):
    assert classify(IPv6Address(f"{prefix}:{isatap}:{end}")) == kind


def near_the_edges() -> Iterator[Address]:
    """Addresses just inside and just outside of every range that matters."""
    ranges = [
        *NEVER,
        *PRIVATE,
        *DOCUMENTATION,
        *map(ip_network, ("2000::/3", "2002::/16", "2001::/32", "64:ff9b::/96")),
    ]
    ranges += map(ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"))
    for network in ranges:
        for edge in (int(network.network_address), int(network.broadcast_address)):
            for number in (edge - 1, edge, edge + 1):
                if 0 <= number < 2**network.max_prefixlen:
                    yield type(network.network_address)(number)


@pytest.mark.parametrize("address", list(dict.fromkeys(near_the_edges())), ids=str)
def test_edges_of_ranges(address):
    assert unwrap(address) == unwrapped(address)
    assert classify(address) == address_class(address)


BEYOND_THE_LIST = [*map(ip_network, ("2001:2::/48", "2001:10::/28", "2001:20::/28", "3fff::/20"))]
"""Closed as well, although no list asks for it: they are not routed."""

wrapped_addresses = st.builds(
    lambda embed, number: embed(IPv4Address(number)),
    st.sampled_from(list(EMBEDDINGS.values())),
    st.integers(0, 2**32 - 1),
)
special_addresses = st.sampled_from([*NEVER, *PRIVATE, *DOCUMENTATION]).flatmap(
    lambda network: st.integers(int(network.network_address), int(network.broadcast_address)).map(
        type(network.network_address)
    )
)


@often
@given(addresses() | wrapped_addresses | special_addresses)
def test_the_guard_agrees_with_the_naive_one(address):
    assert unwrap(address) == unwrapped(address)
    if inside(address, BEYOND_THE_LIST):
        assert classify(address) == "never"
    else:
        assert classify(address) == address_class(address)


IETF_PROTOCOL_ASSIGNMENTS = ip_network("2001::/23")


@often
@given(addresses() | wrapped_addresses | special_addresses)
@example(IPv6Address("2001:10::1"))
@example(IPv6Address("100::1"))
def test_what_the_registries_call_not_global_is_never_public(address):
    """One direction only: Belljar closes more, and what the library knows depends on its version."""
    inner = unwrap(address)
    exempt = inside(inner, DOCUMENTATION) or (inner.version == 6 and inner in IETF_PROTOCOL_ASSIGNMENTS)
    if not inner.is_global and not exempt:
        assert classify(address) != "public"
    if inner.is_loopback or inner.is_link_local or inner.is_multicast or inner.is_unspecified or inner.is_reserved:
        assert classify(address) == "never"


def test_documentation_ranges_are_public():
    for network in DOCUMENTATION:
        assert classify(network[0]) == classify(network[-1]) == "public"


@pytest.mark.parametrize(
    ("network", "never"),
    [
        ("127.0.0.0/8", True),
        ("127.0.0.1/32", True),
        ("169.254.169.254/32", True),
        ("100.100.100.200/32", True),
        ("198.18.0.0/15", True),
        ("224.0.0.0/4", True),
        ("224.0.0.0/3", True),
        ("0.0.0.0/0", False),
        ("126.0.0.0/7", False),
        ("100.64.0.0/10", False),
        ("192.0.2.0/24", False),
        ("::1/128", True),
        ("fe80::/10", True),
        ("fe80::/9", True),
        ("ff00::/8", True),
        ("fd00:ec2::/32", True),
        ("fd00:ec2::254/128", True),
        ("64:ff9b:1::/48", True),
        ("4000::/2", True),
        ("fd00::/8", False),
        ("2001:db8::/32", False),
        ("::/0", False),
    ],
)
def test_ranges_that_no_policy_opens(network, never):
    assert can_never_be_opened(ip_network(network)) is never


@unhurried
@given(networks(), st.data())
def test_a_range_said_to_be_closed_holds_nothing_that_a_grant_of_it_would_open(network, data):
    number = data.draw(st.integers(int(network.network_address), int(network.broadcast_address)))
    address = type(network.network_address)(number)
    if carries_ipv4_only(network):
        assert unwrap(address).version == 4 or classify(address) == "never"
    elif can_never_be_opened(network):
        assert classify(address) == "never" or unwrap(address) is not address
