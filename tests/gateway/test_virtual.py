"""Virtual addresses: one name each, and never somebody else's while anyone can still mean it."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.gateway.dns.virtual import (
    IPV4_POOL,
    IPV6_POOL,
    TTL,
    NoAddressLeftError,
    VirtualNames,
    is_virtual,
)
from belljar.names import Address
from belljar.policy import AddressClass, classify

LONG_AFTER = 10 * TTL


def test_a_name_has_one_address_of_each_family_and_keeps_them():
    names = VirtualNames()
    addresses = names.lookup("api.example.org", 0.0)
    assert [address.version for address in addresses] == [4, 6]
    assert names.lookup("api.example.org", LONG_AFTER) == addresses
    assert [names.name_of(address) for address in addresses] == ["api.example.org"] * 2


def test_different_names_have_different_addresses():
    names = VirtualNames()
    given_out = [address for number in range(5000) for address in names.lookup(f"h{number}.example", 0.0)]
    assert len(set(given_out)) == 10_000
    assert len(names) == 5000


@pytest.mark.parametrize(
    "address",
    [
        "198.18.0.1",
        "198.18.1.0",
        "198.19.255.255",
        "198.20.0.0",
        "198.17.255.255",
        "0.0.0.0",
        "255.255.255.255",
        "fd62:656c:6c6a::1",
        "fd62:656c:6c6a::100",
        "fd62:656c:6c6a:1::",
        "::",
        "::ffff:198.18.1.0",
        "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ],
)
def test_what_was_not_handed_out_has_no_name(address):
    assert VirtualNames().name_of(ip_address(address)) is None


def test_the_whole_pool_is_used_but_for_its_ends():
    names = VirtualNames()
    handed_out = [names.lookup(f"h{number}.example", 0.0) for number in range(IPV4_POOL.num_addresses - 512)]
    with pytest.raises(NoAddressLeftError):
        names.lookup("new.example", 0.0)
    first, last = handed_out[0], handed_out[-1]
    assert (str(first[0]), str(last[0])) == ("198.18.1.0", "198.19.254.255")
    assert all(four in IPV4_POOL and six in IPV6_POOL for four, six in (first, last))
    assert names.lookup("h7.example", 0.0) == handed_out[7]
    assert names.lookup("new.example", LONG_AFTER)


def test_no_real_answer_can_be_mistaken_for_one():
    """A name that resolves to an address of this class is always refused."""
    four, six = VirtualNames().lookup("api.example.org", 0.0)
    assert is_virtual(four)
    assert is_virtual(six)
    assert classify(four) is AddressClass.NEVER
    assert classify(six) is AddressClass.NEVER
    assert not any(map(is_virtual, map(ip_address, ("203.0.113.7", "198.20.0.1", "2001:db8::1", "fd62:656c:6c6b::1"))))


def test_an_unexpired_answer_keeps_its_address():
    names = VirtualNames(capacity=2)
    names.lookup("a.example", 0.0)
    names.lookup("b.example", 1.0)
    for now in (1.0, TTL - 1.0, TTL + 1.0):
        with pytest.raises(NoAddressLeftError):
            names.lookup("c.example", now)
    assert names.lookup("c.example", 2 * TTL) is not None
    assert "a.example" not in [names.name_of(address) for address in names.lookup("c.example", 2 * TTL)]
    assert len(names) == 2


def test_an_answer_that_is_renewed_counts_from_then_on():
    names = VirtualNames(capacity=2)
    addresses = names.lookup("a.example", 0.0)
    names.lookup("b.example", 0.0)
    names.lookup("a.example", TTL)
    names.lookup("c.example", 1.5 * TTL)
    assert names.lookup("a.example", 1.5 * TTL) == addresses
    assert names.name_of(addresses[0]) == "a.example"


def test_an_open_connection_keeps_its_address():
    names = VirtualNames(capacity=1)
    names.lookup("a.example", 0.0)
    names.hold("a.example")
    names.hold("a.example")
    names.release("a.example")
    with pytest.raises(NoAddressLeftError):
        names.lookup("b.example", LONG_AFTER)
    names.release("a.example")
    names.lookup("b.example", LONG_AFTER)


def test_a_connection_may_come_before_the_question():
    """Explicit proxies are given names that nobody has asked for."""
    names = VirtualNames(capacity=1)
    names.hold("a.example")
    names.lookup("a.example", 0.0)
    with pytest.raises(NoAddressLeftError):
        names.lookup("b.example", LONG_AFTER)
    names.release("a.example")
    names.lookup("b.example", LONG_AFTER)
    names.hold("c.example")
    names.release("c.example")
    assert len(names) == 1


def test_an_old_name_keeps_its_address_until_it_is_needed():
    names = VirtualNames(capacity=100, kept=10)
    old = names.lookup("old.example", 0.0)
    for number in range(9):
        names.lookup(f"h{number}.example", LONG_AFTER)
    assert names.name_of(old[0]) == "old.example"
    assert names.lookup("one-too-many.example", LONG_AFTER) == old


def test_memory_follows_what_is_in_use():
    names = VirtualNames()
    for number in range(50_000):
        names.lookup(f"h{number}.example", number / 50)  # fifty new names a second
    assert len(names) <= 50 * 2 * TTL


operations = st.lists(
    st.tuples(st.sampled_from(["lookup", "hold", "release", "wait"]), st.integers(0, 6)),
    max_size=200,
)


@given(operations, st.integers(1, 5), st.integers(1, 8))
def test_an_address_changes_its_name_only_when_nobody_can_mean_the_old_one(operations, capacity, kept):
    names = VirtualNames(capacity=capacity, kept=kept)
    now = 0.0
    holds = dict.fromkeys((f"h{number}.example" for number in range(7)), 0)
    answered: dict[str, float] = {}  # when each name was last answered
    owners: dict[Address, str] = {}  # the name that each address was last given to
    for operation, number in operations:
        name = f"h{number}.example"
        if operation == "wait":
            now += number * 10
        elif operation == "hold":
            names.hold(name)
            holds[name] += 1
        elif operation == "release" and holds[name]:
            names.release(name)
            holds[name] -= 1
        elif operation == "lookup":
            try:
                addresses = names.lookup(name, now)
            except NoAddressLeftError:
                assert len(names) == capacity
                continue
            for address in addresses:
                old = owners.get(address, name)
                assert old == name or (not holds[old] and answered[old] + TTL <= now)
                owners[address] = name
            answered[name] = now
        for name, when in answered.items():
            if when + TTL > now:
                mine = [address for address, owner in owners.items() if owner == name]
                assert [names.name_of(address) for address in mine] == [name, name]
        assert len(names) <= capacity
