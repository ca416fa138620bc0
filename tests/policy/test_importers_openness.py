"""The rule above all importers: nothing is more open than in the source, and what is missing is noted.

`sources` has its own readings of the formats; documents and flows come from small alphabets, so that they meet often.
"""

import json
from collections.abc import Callable
from ipaddress import collapse_addresses, ip_network
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belljar.policy import InvalidPolicyError, Mode, Protocol, Syntax, compile_policy, read_policy, render
from belljar.policy.flow import Flow, to_address, to_name
from belljar.policy.importers import import_policy
from belljar.policy.importers.ranges import all_but
from tests.policy import sources
from tests.policy.sources import SquidConf
from tests.policy.strategies import unhurried

thorough = settings(unhurried, max_examples=200)

FLOWS = [
    to_name(name, port, protocol, (address,))
    for name, port, protocol, address in product(sources.NAMES, sources.PORTS, Protocol, sources.ADDRESSES)
] + [
    to_address(address, port, protocol)
    for address, port, protocol in product(sources.ADDRESSES, sources.PORTS, Protocol)
]

names = st.sampled_from(sources.NAMES)
addresses = st.sampled_from([str(address) for address in sources.ADDRESSES[:4]])
name_patterns = st.one_of(names, names.map("*.{}".format), names.map(".{}".format), addresses)
odd_patterns = st.sampled_from(
    ["", "*", "*.com", "*.example", "x.example:8443", "*.", "x..example", "http://x.example"]
)
patterns = st.lists(st.one_of(name_patterns, odd_patterns), max_size=3)
ranges = st.sampled_from(["203.0.113.0/24", "203.0.113.7/24", "10.0.0.0/8", "10.0.0.5", "2001:db8::/32", "x"])
cidrs = st.lists(st.one_of(ranges, st.just("0.0.0.0/0")), max_size=2)
port_entries = st.sampled_from([443, "80", "8000-9000", {"port": 22, "endPort": 90}, {"port": 53, "protocol": "udp"}])
ports = st.lists(port_entries, max_size=2)

sandbox0_lists = st.fixed_dictionaries(
    {},
    optional={
        "allowedDomains": patterns,
        "allowedCidrs": cidrs,
        "allowedPorts": ports,
        "deniedDomains": patterns,
        "deniedCidrs": cidrs,
        "deniedPorts": ports,
    },
)
matchers = {"domains": patterns, "cidrs": cidrs, "ports": ports}
sandbox0_rules = st.lists(
    st.fixed_dictionaries(
        {"action": st.sampled_from(["allow", "deny"])},
        optional={**matchers, "appProtocols": st.just(["tls"]), "name": st.sampled_from("ab")},
    ).filter(lambda rule: any(rule.get(key) for key in (*matchers, "appProtocols"))),
    min_size=1,
    max_size=3,
).map(lambda rules: {"trafficRules": rules})
protocol_rules = st.lists(st.fixed_dictionaries({"domains": st.lists(names, min_size=1, max_size=1)}), max_size=1)
sandbox0_documents = st.builds(
    lambda mode, egress, rules: {"mode": mode, "egress": {**egress, "protocolRules": rules}},
    st.sampled_from(list(map(str, Mode))),
    st.one_of(sandbox0_lists, sandbox0_rules),
    protocol_rules,
)
srt_patterns = st.one_of(name_patterns, names.map("{}:8443".format), names.map("*.{}:443".format), odd_patterns)
srt_documents = st.builds(
    lambda allowed, denied: {"network": {"allowedDomains": allowed, "deniedDomains": denied}},
    st.lists(srt_patterns, max_size=3),
    st.lists(st.one_of(srt_patterns, st.just("*:443"), st.just("10.0.0.5:80")), max_size=2),
)
forge_documents = st.fixed_dictionaries(
    {"mode": st.sampled_from(["allowlist", "deny-all", "dev-open"])},
    optional={
        "allowed_domains": patterns,
        "tool_domains": patterns,
        "all_domains": patterns,
        "allow_private_ips": st.booleans(),
    },
)
squid_names = st.one_of(names, names.map(".{}".format), addresses)


def acl(kind: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, tuple[str, ...]]]:
    return st.tuples(st.just(kind), st.lists(values, min_size=1, max_size=2).map(tuple))


squid_acls = st.fixed_dictionaries(
    {
        "ours": acl("dstdomain", squid_names),
        "more": acl("dstdomain", squid_names),
        "nets": acl("dst", st.sampled_from(["203.0.113.0/24", "10.0.0.0/8"])),
        "safe": acl("port", st.sampled_from(["80", "443", "22-90"])),
        "tls": acl("port", st.sampled_from(["443", "8000-9000"])),
        "CONNECT": st.just(("method", ("CONNECT",))),
        "us": st.just(("src", ("10.0.0.0/8",))),
    }
)
destinations = st.sampled_from(
    [("ours",), ("more",), ("nets",), ("ours", "safe"), ("CONNECT", "more"), ("ours", "all")]
)
words = st.sampled_from(["ours", "more", "nets", "safe", "tls", "!safe", "!tls", "CONNECT", "us", "!more", "all"])
squid_lines = st.lists(
    st.tuples(
        st.sampled_from(["allow", "deny"]),
        st.one_of(destinations, destinations, st.lists(words, min_size=1, max_size=2).map(tuple)),
    ),
    min_size=1,
    max_size=5,
).map(tuple)
usual_lines = st.just((("deny", ("!safe",)), ("deny", ("CONNECT", "!tls"))))
squid_confs = st.builds(
    SquidConf, squid_acls, st.one_of(squid_lines, st.builds(tuple.__add__, usual_lines, squid_lines))
)


def check_against_source(text: str, opens: Callable[[Flow], bool]) -> None:
    try:
        result = import_policy(text)
    except InvalidPolicyError:
        return
    policy = compile_policy(result.policy)
    for flow in FLOWS:
        here, there = policy.decide(flow).allowed, opens(flow)
        assert there or not here, f"{flow} {flow.addresses} is open here and not in the source"
        assert here or not there or result.notes, f"{flow} {flow.addresses} was closed without a note"
    for syntax in Syntax:
        assert read_policy(render(result.policy, syntax), syntax).policy == result.policy


@thorough
@given(sandbox0_documents)
def test_no_more_is_open_than_in_sandbox0(document):
    check_against_source(json.dumps(document), lambda flow: sources.sandbox0_opens(document, flow))


@thorough
@given(srt_documents)
def test_no_more_is_open_than_in_srt(document):
    check_against_source(json.dumps(document), lambda flow: sources.srt_opens(document, flow))


@thorough
@given(forge_documents)
def test_no_more_is_open_than_in_forge(document):
    check_against_source(json.dumps(document), lambda flow: sources.forge_opens(document, flow))


@thorough
@given(squid_confs)
def test_no_more_is_open_than_in_squid(conf):
    check_against_source(str(conf), conf.opens)


@thorough
@given(st.lists(squid_names, min_size=1, max_size=4))
def test_no_more_is_open_than_in_a_list_of_squid(entries):
    def opens(flow):
        host = flow.name or str(flow.addresses[0])
        return any(sources.squid_name(entry, host) for entry in entries)

    check_against_source("\n".join(entries), opens)


networks = st.builds(
    lambda number, length: ip_network((number >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)


@unhurried
@given(st.lists(networks, max_size=5))
def test_all_but_some_ranges_is_everything_else_exactly(some):
    rest = all_but(some)
    assert all(not one.overlaps(other) for one in some for other in rest if other.version == 4)
    assert sum(net.num_addresses for net in collapse_addresses([*some, *(n for n in rest if n.version == 4)])) == 2**32
    assert [str(net) for net in rest if net.version == 6] == ["::/0"]


# Whatever the text


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), odd_patterns)
trees = st.recursive(
    leaves, lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3), max_leaves=8
)
known_keys = st.sampled_from(
    [
        "allowedDomains",
        "allowed_cidrs",
        "deniedPorts",
        "trafficRules",
        "protocolRules",
        "proxy",
        "network",
        "action",
        "domains",
        "ports",
        "port",
        "endPort",
        "all_domains",
        "tool_domains",
        "allow_private_ips",
        "name",
        "deniedDomains",
    ]
)
known_trees = st.recursive(
    leaves, lambda below: st.lists(below, max_size=3) | st.dictionaries(known_keys, below, max_size=4), max_leaves=12
)
modes = st.sampled_from(["block-all", "allow-all", "allowlist", "dev-open", "deny-all", "open"])
skeletons = st.one_of(
    st.builds(lambda mode, egress: {"mode": mode, "egress": egress}, modes, known_trees),
    st.builds(lambda rules, mode: {"mode": mode, "egress": {"trafficRules": rules}}, st.lists(known_trees), modes),
    st.builds(lambda mode, domains: {"mode": mode, "all_domains": domains}, modes, known_trees),
    st.builds(lambda denied: {"network": {"deniedDomains": denied}}, known_trees),
)


def check_only_refuses(text: str) -> None:
    try:
        result = import_policy(text)
    except InvalidPolicyError as error:
        assert error.problems
        return
    assert read_policy(render(result.policy, Syntax.YAML), Syntax.YAML).policy == result.policy


@unhurried
@given(st.one_of(trees, skeletons))
def test_arbitrary_json_is_imported_or_refused(data):
    check_only_refuses(json.dumps(data))


squid_like = st.lists(
    st.lists(
        st.sampled_from(
            ["acl", "http_access", "allow", "deny", "x", "dstdomain", "port", "!x", "443", ".a.b", "#", "\\"]
        )
    ),
).map(lambda lines: "\n".join(" ".join(line) for line in lines))


@unhurried
@given(st.one_of(st.text(), squid_like, st.text(alphabet="{}[]:-\"' \n\\.*#ab")))
def test_arbitrary_text_is_imported_or_refused(text):
    check_only_refuses(text)


@pytest.mark.parametrize("depth", [50, 500, 990, 100_000])
@pytest.mark.parametrize("frame", ['{"mode": "block-all", "egress": {"allowedDomains": [%s]}}', "%s"])
def test_deep_nesting_is_imported_or_refused(frame, depth):
    check_only_refuses(frame % ("[" * depth + "]" * depth))
