"""What is valid but probably not meant is said, and nothing else is."""

import pytest
from hypothesis import given

from belljar.policy.language.advice import advise
from tests.policy.documents import compiled, flow, shown, warnings
from tests.policy.strategies import policies, unhurried

WARNINGS = {
    # lists without effect
    "{mode: block-all, egress: {denied_domains: [a.example]}}": [
        "egress.denied_domains: has no effect in mode block-all; it is kept as it is"
    ],
    "{mode: block-all, egress: {denied_cidrs: [192.0.2.0/24], denied_ports: [25]}}": [
        "egress.denied_cidrs: has no effect in mode block-all; it is kept as it is",
        "egress.denied_ports: has no effect in mode block-all; it is kept as it is",
    ],
    "{mode: allow-all, egress: {allowed_domains: [a.example], allowed_cidrs: [192.0.2.0/24], allowed_ports: [443]}}": [
        "egress.allowed_domains: has no effect in mode allow-all; it is kept as it is",
        "egress.allowed_cidrs: has no effect in mode allow-all; it is kept as it is",
        "egress.allowed_ports: has no effect in mode allow-all; it is kept as it is",
    ],
    "{mode: allow-all, presets: [anthropic]}": ["presets: has no effect in mode allow-all; it is kept as it is"],
    # repetition
    "{mode: block-all, egress: {allowed_domains: [a.example, b.example, A.EXAMPLE.]}}": [
        'egress.allowed_domains[2]: "a.example" repeats entry 0; delete one of them'
    ],
    "{mode: block-all, egress: {allowed_cidrs: [192.0.2.1, 192.0.2.1/32]}}": ["egress.allowed_cidrs[1]: "],
    "{mode: block-all, egress: {allowed_ports: [443, '443', 443-443]}}": [
        "egress.allowed_ports[1]: ",
        "egress.allowed_ports[2]: ",
    ],
    # grants that cannot grant
    "{mode: block-all, egress: {allowed_domains: [localhost]}}": [
        'egress.allowed_domains[0]: "localhost" is the sandbox itself to programs inside, and opens nothing; for a port'
    ],
    "{mode: block-all, egress: {allowed_domains: ['a.localhost:8080']}}": ["for a port of this machine, list 8080 in"],
    "{mode: block-all, egress: {allowed_domains: [metadata]}}": [
        'egress.allowed_domains[0]: "metadata" means this machine or a metadata service, which no policy opens'
    ],
    "{mode: block-all, egress: {allowed_domains: [metadata.google.internal]}}": ["a metadata service"],
    "{mode: block-all, egress: {allowed_domains: ['host.belljar.internal:5432']}}": [
        'egress.allowed_domains[0]: "host.belljar.internal:5432" is the host itself and stays closed; list its port in'
    ],
    "{mode: block-all, egress: {allowed_domains: [host.docker.internal]}}": ["list its port in host_ports"],
    "{mode: block-all, egress: {allowed_domains: [api.belljar.internal]}, services: {api: {port: 80}}}": [
        'egress.allowed_domains[0]: "api.belljar.internal" has no effect: names under belljar.internal are opened by'
    ],
    "{mode: allow-all, rules: [{action: allow, domains: ['*.belljar.internal']}]}": ["opened by services alone"],
    "{mode: block-all, egress: {allowed_cidrs: [127.0.0.1]}}": [
        'egress.allowed_cidrs[0]: "127.0.0.1/32" is the sandbox itself to programs inside, and opens nothing; for a'
    ],
    "{mode: block-all, egress: {allowed_cidrs: [169.254.169.254/32]}}": ["which no policy opens"],
    "{mode: block-all, egress: {allowed_cidrs: [100.100.100.200]}}": ["which no policy opens"],
    "{mode: block-all, egress: {allowed_cidrs: ['::1']}}": ["list it in host_ports, and use"],
    "{mode: block-all, egress: {allowed_cidrs: ['fe80::/10']}}": ["which no policy opens"],
    "{mode: block-all, egress: {allowed_cidrs: ['fd00:ec2::254']}}": ["which no policy opens"],
    "{mode: block-all, egress: {allowed_cidrs: ['64:ff9b::/96']}}": [
        "holds IPv4 addresses in IPv6 form and matches none; write the IPv4 range"
    ],
    "{mode: block-all, egress: {allowed_cidrs: ['::ffff:127.0.0.1']}}": ['"127.0.0.1/32" is the sandbox itself'],
    "{mode: block-all, egress: {allowed_ports: [53/udp]}}": ["egress.allowed_ports[0]: "],
    # grants that are wide
    "{mode: block-all, egress: {allowed_cidrs: [0.0.0.0/0]}}": [
        'egress.allowed_cidrs[0]: "0.0.0.0/0" grants 4e+09 addresses, private ones included; is it meant?'
    ],
    "{mode: block-all, egress: {allowed_cidrs: [8.0.0.0/7]}}": ["is it meant?"],
    "{mode: block-all, egress: {allowed_cidrs: ['::/0']}}": ["is it meant?"],
    # rules
    "{mode: block-all, rules: [{action: allow, ports: [443]}]}": [
        "rules[0]: names no destination, so it opens its ports to every public address; is it meant?"
    ],
    "{mode: block-all, rules: [{action: allow, protocol: tcp}]}": ["rules[0]: names no destination"],
    "{mode: block-all, rules: [{action: allow, cidrs: [192.0.2.0/24], protocol: udp}]}": ["rules[0].protocol: "],
    "{mode: block-all, rules: [{action: allow, cidrs: [192.0.2.0/24], ports: [53/udp]}]}": ["rules[0].ports[0]: "],
    "{mode: allow-all, rules: [{action: allow, cidrs: [127.0.0.1]}]}": ["rules[0].cidrs[0]: "],
    "{mode: allow-all, rules: [{action: allow, domains: [a.example, localhost]}]}": ["rules[0].domains[1]: "],
    "{mode: allow-all, rules: [{action: allow, cidrs: [0.0.0.0/0]}]}": ["rules[0].cidrs[0]: "],
}


@pytest.mark.parametrize(("text", "said"), WARNINGS.items(), ids=map(shown, WARNINGS))
def test_oddities(text, said):
    found = warnings(text)
    assert len(found) == len(said)
    assert all(one in other for one, other in zip(said, found, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "mode: block-all",
        "mode: allow-all",
        "{mode: block-all, egress: {allowed_domains: [a.example, '*.a.example', 'a.example:22', x.internal]}}",
        "{mode: block-all, egress: {allowed_cidrs: [10.0.0.0/8, 192.0.2.0/24, '2001:db8::/32', 'fd00:1::/32']}}",
        "{mode: block-all, egress: {allowed_domains: [a.example], allowed_ports: [443, 8000-8100]}}",
        "{mode: allow-all, egress: {denied_domains: ['*.com', localhost], denied_cidrs: [0.0.0.0/0, 127.0.0.1]}}",
        "{mode: allow-all, egress: {denied_ports: [25, 53/udp]}}",
        "{mode: allow-all, rules: [{action: allow, ports: [443]}, {action: allow, protocol: udp, ports: [53]}]}",
        "{mode: block-all, rules: [{action: deny, ports: [443]}, {action: deny, cidrs: [127.0.0.1], protocol: udp}]}",
        "{mode: block-all, presets: [anthropic], host_ports: [5432], allow_private: true}",
        "{mode: block-all, services: {anthropic: {}, web: {port: 80}, db: {address: 'db.corp.example:5432'}}}",
        "{mode: block-all, rules: [{action: deny, domains: ['*.belljar.internal']}]}",
    ],
)
def test_ordinary_policies_are_left_alone(text):
    assert warnings(text) == []


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("{mode: block-all, egress: {allowed_cidrs: [127.0.0.1]}}", "127.0.0.1:80"),
        ("{mode: block-all, egress: {allowed_cidrs: ['64:ff9b::/96']}}", "[64:ff9b::c000:201]:80"),
        ("{mode: block-all, egress: {allowed_domains: [localhost]}}", "localhost:80"),
        ("{mode: block-all, egress: {allowed_domains: ['*.belljar.internal']}}", "api.belljar.internal:443"),
        ("{mode: block-all, egress: {allowed_domains: [host.docker.internal]}}", "host.docker.internal:443"),
        ("{mode: block-all, egress: {allowed_cidrs: [192.0.2.0/24], allowed_ports: [53/udp]}}", "192.0.2.1:53/udp"),
    ],
)
def test_what_is_said_to_have_no_effect_has_none(text, asked):
    assert warnings(text)
    assert not compiled(text).decide(flow(asked)).allowed


@unhurried
@given(policies(presets=True))
def test_every_warning_is_a_line_that_says_where(policy):
    for warning in advise(policy):
        assert warning.where
        assert str(warning).isprintable()
