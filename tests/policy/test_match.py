"""The indexes against linear searches."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.policy import Protocol
from belljar.policy.match import CidrIndex, DomainIndex, PortIndex, PortSet
from belljar.policy.model import DomainPattern, PortRange, Scope
from tests.policy.reference import covers
from tests.policy.strategies import ADDRESSES, addresses, canonical_names, cidrs, networks, often, patterns, port_ranges

any_patterns = patterns(grants=False) | st.builds(DomainPattern, canonical_names(), st.sampled_from(Scope))
bare_protocols = st.sampled_from([(Protocol.TCP,), (Protocol.UDP,), (Protocol.TCP, Protocol.UDP)])
small_ranges = st.builds(
    lambda ends, protocol: PortRange(ends[0], ends[1], protocol),
    st.lists(st.integers(1, 12), min_size=2, max_size=2).map(sorted),
    st.sampled_from([None, *Protocol]),
)


def labels(pattern: DomainPattern) -> int:
    return len(pattern.name.split("."))


@often
@given(st.lists(any_patterns, max_size=8), canonical_names() | patterns(grants=False).map(lambda p: p.name))
def test_domains(entries, name):
    index = DomainIndex((pattern, number) for number, pattern in enumerate(entries))
    found = index.covering(name)
    assert sorted(found) == [number for number, pattern in enumerate(entries) if covers(pattern, name, broad=False)]
    assert all(labels(entries[first]) >= labels(entries[second]) for first, second in pairwise(found)), "nearest first"


@pytest.mark.parametrize(
    ("pattern", "covered", "missed"),
    [
        (DomainPattern("a.example"), ["a.example"], ["b.a.example", "ba.example", "example", "a.example.b"]),
        (
            DomainPattern("a.example", Scope.BELOW),
            ["b.a.example", "c.b.a.example"],
            ["a.example", "ba.example", "b.example", "example"],
        ),
        (
            DomainPattern("a.example", Scope.WITHIN),
            ["a.example", "b.a.example", "c.b.a.example"],
            ["ba.example", "b.example", "example", "a.example.org"],
        ),
        (DomainPattern("example", Scope.BELOW), ["a.example"], ["example", "aexample"]),
    ],
    ids=str,
)
def test_what_patterns_cover(pattern, covered, missed):
    index = DomainIndex([(pattern, True)])
    assert all(index.covering(name) == [True] for name in covered)
    assert not any(index.covering(name) for name in missed)


def test_the_same_pattern_twice_gives_both_values():
    index = DomainIndex([(DomainPattern("a.example"), 1), (DomainPattern("a.example"), 2)])
    assert index.covering("a.example") == [1, 2]


@often
@given(st.lists(cidrs() | networks(), max_size=8), st.sampled_from(ADDRESSES) | addresses())
def test_cidrs(entries, address):
    index = CidrIndex((network, number) for number, network in enumerate(entries))
    found = index.containing(address)
    assert sorted(found) == [
        number for number, network in enumerate(entries) if network.version == address.version and address in network
    ]
    lengths = [entries[number].prefixlen for number in found]
    assert lengths == sorted(lengths, reverse=True), "narrowest first"


def contains(ranges: list[PortRange], port: int, protocol: Protocol, bare: tuple[Protocol, ...]) -> bool:
    return any(r.first <= port <= r.last and protocol in ((r.protocol,) if r.protocol else bare) for r in ranges)


@often
@given(st.lists(small_ranges | port_ranges(), max_size=6), bare_protocols)
def test_port_sets(ranges, bare):
    ports = PortSet.of(ranges, bare=bare)
    for port in (*range(14), 22, 80, 443, 7999, 8000, 8001, 8002, 65534, 65535, 65536):
        for protocol in Protocol:
            assert ports.has(port, protocol) is contains(ranges, port, protocol, bare)
    for merged in (ports.tcp, ports.udp):
        assert all(first[1] + 1 < second[0] for first, second in pairwise(merged)), "merged, sorted and apart"


@pytest.mark.parametrize(
    ("ranges", "everything"),
    [
        ([PortRange(1, 65535)], True),
        ([PortRange(1, 79), PortRange(80, 65535)], True),
        ([PortRange(1, 65535, Protocol.TCP), PortRange(1, 65535, Protocol.UDP)], True),
        ([PortRange(1, 65535, Protocol.TCP)], False),
        ([PortRange(2, 65535)], False),
        ([PortRange(1, 65534)], False),
        ([PortRange(1, 79), PortRange(81, 65535)], False),
        ([], False),
    ],
)
def test_a_port_set_knows_when_it_is_everything(ranges, everything):
    assert PortSet.of(ranges, bare=(Protocol.TCP, Protocol.UDP)).is_everything() is everything


@often
@given(st.lists(st.lists(small_ranges, max_size=3), max_size=5), bare_protocols)
def test_port_index(sets, bare):
    index = PortIndex((PortSet.of(ranges, bare=bare), number) for number, ranges in enumerate(sets))
    for port in range(15):
        for protocol in Protocol:
            wanted = [number for number, ranges in enumerate(sets) if contains(ranges, port, protocol, bare)]
            assert index.first(port, protocol) == (wanted[0] if wanted else None)
