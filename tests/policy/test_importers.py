"""What other tools allow becomes a policy that allows no more, and says what is missing."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from belljar.names import parse_address
from belljar.policy import (
    InvalidPolicyError,
    Policy,
    compile_policy,
)
from belljar.policy.flow import Flow, to_address, to_name
from belljar.policy.importers import Imported, import_policy
from belljar.policy.language.render import to_data


def imported(source: object, file_name: str = "") -> Imported:
    return import_policy(source if isinstance(source, str) else json.dumps(source), file_name)


def said(source: object) -> dict[str, Any]:
    """The policy as plain data."""
    return to_data(imported(source).policy)


def notes(source: object) -> str:
    return "\n".join(map(str, imported(source).notes))


def refusal(source: object, file_name: str = "") -> str:
    with pytest.raises(InvalidPolicyError) as caught:
        imported(source, file_name)
    return str(caught.value)


def allows(policy: Policy, flow: Flow) -> bool:
    return compile_policy(policy).decide(flow).allowed


def sandbox0(mode: str = "block-all", **egress: object) -> dict[str, Any]:
    return {"mode": mode, "egress": egress}


def srt(*allowed: str, denied: Sequence[object] = (), **network: Any) -> dict[str, Any]:
    return {"network": {"allowedDomains": list(allowed), "deniedDomains": list(denied), **network}}


# Which format it is


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ('{"mode": "block-all"}', "sandbox0"),
        ('\ufeff{"mode": "allow-all", "egress": null}', "sandbox0"),
        ("mode: block-all\negress:\n  allowedDomains: [a.example]\n", "sandbox0"),
        ('{"network": {"allowedDomains": [], "deniedDomains": []}, "filesystem": {}}', "srt"),
        ('{"network": {"deniedDomains": ["*"]}}', "srt"),
        ('{"mode": "deny-all"}', "forge"),
        ('{"mode": "allowlist", "all_domains": ["a.example"]}', "forge"),
        ("# ours\n\n.a.example\n", "squid"),
        ("acl ours dstdomain a.example\nhttp_access allow ours\n", "squid"),
        ("http_access deny all\n", "squid"),
    ],
)
def test_the_format_is_recognised_from_the_content(text, source):
    assert imported(text).source == source


def test_a_file_name_that_says_json_is_believed():
    assert "no known format" in refusal("a.example\n", "policy.JSON")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n",
        "[]",
        '["a.example"]',
        "[a.example]",
        "- a.example\n",
        "null",
        "true",
        "12",
        '"a.example"',
        "{}",
        "localhost",
        "a page of prose, with dots.",
        '{"mode": "open"}',
        '{"network": {}}',
        '{"network": {"mode": 1}}',
        "{",
        "a: b: c",
        "\x00",
        '{"success": true, "data": {"mode": "allow-all"}}',
        "key = 1",
        "x.example: 1",
    ],
)
def test_what_is_no_known_format_is_refused(text):
    message = refusal(text)
    if "domain that can be granted" not in message:
        assert all(name in message for name in ("sandbox0", "srt", "Forge", "Squid"))


def test_a_policy_of_our_own_is_sent_back():
    assert "use it as it is" in refusal("mode: block-all\npresets: [python]\n")


@pytest.mark.parametrize("text", ['{"mode": "block-all", "mode": "allow-all"}', "mode: block-all\nmode: allow-all\n"])
def test_a_key_that_stands_twice_is_refused(text):
    assert "twice" in refusal(text)


@pytest.mark.parametrize(
    "document",
    [
        sandbox0(allowedDomains=[], allowed_domains=["a.example"]),
        sandbox0(allowed_domains={}),
        sandbox0(allowed_domains="a.example"),
        {"mode": "block-all", "egress": []},
        {"mode": "block-all", "egress": "open"},
        sandbox0(deniedNames=["a.example"]),
        sandbox0("allow-all") | {"denied_domains": ["a.example"]},
        sandbox0("allow_all"),
        sandbox0("ALLOW-ALL"),
        {"mode": None, "egress": {}},
        {"mode": ["allow-all"], "egress": {}},
        {"egress": {"allowedDomains": ["a.example"]}},
        {"mode": "open", "all_domains": []},
        {"mode": {}, "all_domains": []},
        {"all_domains": ["a.example"]},
        {"mode": "allowlist", "denied_domains": ["a.example"]},
        {"mode": "allow-all", "all_domains": ["a.example"]},
        srt("a.example", blockedDomains=["b.example"]),
    ],
    ids=json.dumps,
)
def test_a_document_that_is_not_understood_to_the_last_key_is_refused(document):
    refusal(document)


# sandbox0


@pytest.mark.parametrize(
    "egress",
    [
        {
            "allowedDomains": ["a.example", "*.b.example"],
            "allowedPorts": [443, "80", {"port": 8000, "endPort": 8100}, {"port": 22, "endPort": 0, "protocol": "TCP"}],
        },
        {
            "allowed_domains": [" A.example", "*.b.example"],
            "allowed_ports": ["443", 80, "8000-8100", {"port": "22", "end_port": None, "protocol": "tcp"}],
        },
    ],
    ids=["camelCase", "snake_case"],
)
def test_sandbox0_lists_in_both_spellings(egress):
    assert said(sandbox0(**egress)) == {
        "mode": "block-all",
        "egress": {"allowed_domains": ["a.example", ".b.example"], "allowed_ports": [443, 80, "8000-8100", "22/tcp"]},
    }


def test_sandbox0_denied_lists():
    document = sandbox0("allow-all", deniedDomains=["a.example"], deniedCidrs=["10.0.0.0/8"], deniedPorts=[25])
    assert said(document) == {
        "mode": "allow-all",
        "egress": {"denied_domains": ["a.example"], "denied_cidrs": ["10.0.0.0/8"], "denied_ports": [25]},
    }


@pytest.mark.parametrize(
    ("egress", "cidrs"),
    [
        ({"allowedCidrs": ["10.1.2.3/8"]}, {"allowed_cidrs": ["10.1.2.3/32"]}),
        ({"deniedCidrs": ["10.1.2.3/8"]}, {"denied_cidrs": ["10.0.0.0/8"]}),
        ({"deniedCidrs": ["::ffff:10.1.2.3/104"]}, {"denied_cidrs": ["10.0.0.0/8"]}),
    ],
    ids=["a grant takes the smaller reading", "a denial the larger", "also of IPv4 in IPv6"],
)
def test_host_bits(egress, cidrs):
    document = sandbox0("block-all" if "allowedCidrs" in egress else "allow-all", **egress)
    assert said(document)["egress"] == cidrs
    assert "has host bits set" in notes(document)


def test_names_and_ranges_together_mean_a_name_at_an_address():
    document = sandbox0(allowedDomains=["a.example", "10.0.0.5", "192.0.2.1"], allowedCidrs=["10.0.0.0/8"])
    policy = imported(document).policy
    inside, outside, address = map(parse_address, ("10.0.0.5", "192.0.2.1", "10.0.0.6"))
    assert allows(policy, to_name("a.example", 443, addresses=(inside,)))
    assert not allows(policy, to_name("a.example", 443, addresses=(outside,)))
    assert not allows(policy, to_name("a.example", 443, addresses=(inside, outside)))
    assert not allows(policy, to_name("b.example", 443, addresses=(inside,)))
    assert not allows(policy, to_address(address, 443))
    assert allows(policy, to_address(inside, 443))
    assert not allows(policy, to_address(outside, 443))
    assert "an allowed name at an allowed address" in notes(document)
    assert "lists addresses that allowed_cidrs does not allow" in notes(document)


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "::/0"])
def test_to_deny_every_address_is_to_deny_those_of_both_families(cidr):
    document = sandbox0("allow-all", deniedCidrs=["192.0.2.0/24", cidr])
    assert said(document)["egress"] == {"denied_cidrs": ["0.0.0.0/0", "::/0"]}


def test_a_range_of_every_address_is_no_condition():
    assert "rules" not in said(sandbox0(allowedDomains=["a.example"], allowedCidrs=["0.0.0.0/0"]))


@pytest.mark.parametrize("ports", [[], [443]])
@pytest.mark.parametrize("cidrs", [["192.0.2.0/24"], ["nowhere"]])
@pytest.mark.parametrize("domains", [[""], ["*"], ["*.com"], [7], ["http://a.example/"], ["a.example:443"]])
def test_a_condition_of_which_nothing_is_left_is_not_dropped(domains, cidrs, ports):
    assert said(sandbox0(allowedDomains=domains, allowedCidrs=cidrs, allowedPorts=ports)) == {"mode": "block-all"}


@pytest.mark.parametrize("ports", [[0], ["http"], [{"port": 53, "protocol": "udp"}], [True], [443.0], [{}], [None]])
def test_ports_that_cannot_be_read_are_not_every_port(ports):
    assert said(sandbox0(allowedDomains=["a.example"], allowedPorts=ports)) == {"mode": "block-all"}
    assert said(sandbox0(trafficRules=[{"action": "allow", "cidrs": ["192.0.2.0/24"], "ports": ports}])) == {
        "mode": "block-all"
    }


def test_ports_alone_open_every_public_address_as_in_sandbox0():
    document = sandbox0(allowedPorts=[443])
    assert said(document)["rules"] == [{"action": "allow", "ports": [443]}]
    assert "open to every public address" in notes(document)


def test_sandbox0_rules_keep_their_order_and_names():
    rules = [
        {"name": "no gists", "action": "deny", "domains": ["gist.a.example"], "ports": [{"port": 443}]},
        {"name": "ours", "action": "allow", "domains": ["*.a.example"], "ports": [{"port": 443}]},
        {"action": "allow", "cidrs": ["192.0.2.0/24"], "appProtocols": []},
    ]
    assert said(sandbox0(trafficRules=rules))["rules"] == [
        {"name": "no gists", "action": "deny", "domains": ["gist.a.example"], "ports": [443]},
        {"name": "ours", "action": "allow", "domains": [".a.example"], "ports": [443]},
        {"action": "allow", "cidrs": ["192.0.2.0/24"]},
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"domains": ["a.example"], "appProtocols": ["tls"]},
        {"domains": ["a.example"], "cidrs": ["192.0.2.0/24"]},
        {"domains": ["*.com"]},
        {"domains": ["a.example"], "ports": ["https"]},
        {"domains": ["a.example"], "times": ["at night"]},
        {},
    ],
    ids=json.dumps,
)
def test_an_allow_rule_with_more_conditions_than_can_be_said_is_left_out(rule):
    document = sandbox0(trafficRules=[{"action": "allow", **rule}])
    assert said(document) == {"mode": "block-all"}
    assert "egress.trafficRules[0]: the rule was left out: it " in notes(document)


@pytest.mark.parametrize(
    ("rule", "note"),
    [
        ({"domains": ["a.example"], "appProtocols": ["tls"]}, 'cannot have here ("appProtocols")'),
        ({"domains": ["a.example"], "times": ["at night"]}, 'cannot have here ("times")'),
        ({"domains": ["a.example"], "cidrs": ["192.0.2.0/24"]}, "each without the other"),
        ({"domains": ["a.example:443"]}, "is denied on every port"),
    ],
)
def test_a_deny_rule_with_more_conditions_than_can_be_said_denies_more(rule, note):
    document = sandbox0("allow-all", trafficRules=[{"action": "deny", **rule}])
    policy = imported(document).policy
    assert not allows(policy, to_name("a.example", 443, addresses=(parse_address("198.51.100.1"),)))
    assert not allows(policy, to_name("a.example", 22, addresses=(parse_address("198.51.100.1"),)))
    assert note in notes(document)


@pytest.mark.parametrize(
    "rule",
    [
        {"action": "deny", "appProtocols": ["ssh"]},
        {"action": "deny"},
        {"action": "deny", "domains": ["a*.example"]},
        {"action": "deny", "domains": ["*"]},
        {"action": "deny", "domains": ["http://a.example/"]},
        {"action": "deny", "domains": "a.example"},
        {"action": "deny", "domains": [7]},
        {"action": "deny", "cidrs": ["192.0.2.0/33"]},
        {"action": "deny", "cidrs": ["192.0.2.0/255.255.255.0"]},
        {"action": "deny", "cidrs": [7]},
        {"action": "deny", "ports": [{"port": 9, "endPort": 8}]},
        {"action": "deny", "ports": [{"port": 9, "protocol": "sctp"}]},
        {"action": "block", "domains": ["a.example"]},
        {"domains": ["a.example"]},
        "deny everything",
    ],
    ids=json.dumps,
)
def test_a_denial_that_cannot_be_said_refuses_the_import(rule):
    assert "egress.trafficRules[0]" in refusal(sandbox0("allow-all", trafficRules=[rule]))


def test_every_reason_to_refuse_is_given_at_once():
    message = refusal(sandbox0("allow-all", deniedDomains=["a*.example"], deniedCidrs=["x"], deniedPorts=[0]))
    assert len(message.splitlines()) == 3


def test_rules_and_lists_together_are_refused():
    assert "keep one of the two" in refusal(
        sandbox0(allowedDomains=["a.example"], trafficRules=[{"action": "allow", "domains": ["b.example"]}])
    )


@pytest.mark.parametrize(
    "grants",
    [
        {"allowedDomains": ["api.example", "b.example"]},
        {"trafficRules": [{"action": "allow", "domains": ["api.example", "b.example"]}]},
    ],
    ids=list,
)
def test_a_protocol_rule_closes_the_hosts_it_restricts(grants):
    rule = {"name": "read only", "protocol": "http", "domains": ["api.example"], "httpMatch": {"methods": ["GET"]}}
    document = sandbox0(**grants, protocolRules=[rule])
    policy = imported(document).policy
    assert not allows(policy, to_name("api.example", 443))
    assert allows(policy, to_name("b.example", 443))
    assert "restricts requests, which a policy cannot do" in notes(document)


def test_a_protocol_rule_for_every_host_refuses_the_import():
    assert "restricts requests to every host" in refusal(
        sandbox0("allow-all", protocolRules=[{"protocol": "http", "httpMatch": {"methods": ["GET"]}}])
    )


def test_rule_names_that_cannot_be_kept_are_noted():
    rules = [{"name": name, "action": "deny", "ports": [25]} for name in ("mail", "mail", "!", 7)]
    document = sandbox0("allow-all", trafficRules=rules)
    assert [rule.name for rule in imported(document).policy.rules] == ["mail", None, None, None]
    assert notes(document).count("cannot be a name") == 3


SANDBOX0_NOTES = [
    (sandbox0(credentialRules=[{"credentialRef": "k"}]), "egress.credentialRules: was left out"),
    (sandbox0(proxy={"type": "socks5"}), "egress.proxy: was left out"),
    (sandbox0() | {"credentialBindings": [{"ref": "k"}]}, "credentialBindings: was left out"),
    (sandbox0(deniedDomains=["a.example"]), "egress.deniedDomains: was left out: it has no effect in block-all"),
    (sandbox0("allow-all", allowedPorts=[1]), "egress.allowedPorts: was left out: it has no effect in allow-all"),
    (sandbox0("allow-all"), "the policy opens the public internet; private addresses stay closed"),
    (sandbox0(allowedDomains=["a.example"]), "ports 80 and 443 of the domains, where sandbox0 opens every port"),
    (sandbox0(allowedDomains=["a.example"]), "leads to a private address"),
    (sandbox0(allowedDomains=["a.example", ""]), "egress.allowedDomains[1]: is blank"),
    (sandbox0("allow-all", deniedDomains=[" "]), "egress.deniedDomains[0]: is blank"),
    (sandbox0(allowedDomains=["*.com"]), 'egress.allowedDomains[0]: "*.com" was left out: it would grant every site'),
    (
        sandbox0(allowedDomains=["*.a.example"]),
        'egress.allowedDomains[0]: "*.a.example" covers a.example itself there, and was kept as ".a.example"',
    ),
    (sandbox0(allowedDomains=[".a.example"]), 'begins with ".", which matches no name in sandbox0'),
    (sandbox0(allowedDomains=["a.example:80"]), "has a port, which matches no name in sandbox0"),
    (sandbox0(allowedDomains=["localhost"]), "list services of the host in host_ports"),
    (sandbox0(allowedDomains=["host.docker.internal"]), "list services of the host in host_ports"),
    (sandbox0(allowedDomains=["192.0.2.1"]), '"192.0.2.1" is an address and was moved to the cidrs'),
    (sandbox0(allowedDomains=["192.0.2.1:80"]), "is an address with a port"),
    (sandbox0(allowedDomains=["127.0.0.1"]), "which no policy opens"),
    (sandbox0("allow-all", deniedDomains=["[2001:db8::1]:80"]), "was moved to the cidrs, on every port"),
    (sandbox0(allowedDomains=[None]), "egress.allowedDomains[0]: null was left out"),
    (sandbox0(allowedDomains=[{}]), "egress.allowedDomains[0]: a mapping was left out"),
    (sandbox0(allowedDomains=["x" * 300]), "…"),
    (sandbox0(allowedCidrs=["169.254.169.254"]), "which no policy opens"),
    (sandbox0(allowedCidrs=["192.0.2.0/24"]), "names that lead there need allowed_domains too"),
    (sandbox0(allowedPorts=["53/udp", 443]), "no longer opens UDP"),
    (sandbox0(trafficRules=[{"action": "allow", "ports": [443]}]), "leads to a private address"),
    (sandbox0(trafficRules=[{"action": "allow", "domains": ["a.example", "192.0.2.1"]}]), "opens every port"),
    (sandbox0(trafficRules=[{"action": "allow", "cidrs": ["192.0.2.0/24"]}]), "need allowed_domains too"),
    (sandbox0("allow-all", deniedDomains=["a.example"]), '"a.example" is denied with all names below it'),
]


@pytest.mark.parametrize(("document", "note"), SANDBOX0_NOTES, ids=[note for _, note in SANDBOX0_NOTES])
def test_sandbox0_notes(document, note):
    assert note in notes(document)


def test_an_address_among_names_opens_no_more_ports_than_a_name():
    for document in (sandbox0(allowedDomains=["192.0.2.1"]), srt("192.0.2.1")):
        policy = imported(document).policy
        assert allows(policy, to_address(parse_address("192.0.2.1"), 443))
        assert not allows(policy, to_address(parse_address("192.0.2.1"), 22))


# srt


def test_srt_settings():
    document = srt(
        "a.example", "*.a.example", "db.example:5432", denied=["*.secret.a.example", "*:8443", "b.example:22"]
    )
    assert said(document) == {
        "mode": "block-all",
        "egress": {"allowed_domains": ["a.example", "*.a.example", "db.example:5432"]},
        "rules": [
            {"name": "denied domains", "action": "deny", "domains": ["*.secret.a.example", "b.example:22"]},
            {"name": "denied ports", "action": "deny", "ports": [8443]},
        ],
    }


def test_a_star_among_the_denied_domains_of_srt_denies_everything():
    document = srt("a.example", denied=["b.example", "*"])
    assert said(document) == {"mode": "block-all"}
    assert "denies everything" in notes(document)


@pytest.mark.parametrize("entry", ["*:0", "*:ssh", "a*.example", "**", 7])
def test_a_denied_domain_of_srt_that_cannot_be_read_refuses_the_import(entry):
    assert "network.deniedDomains[0]" in refusal(srt("a.example", denied=[entry]))


SRT_LEFT_OUT: dict[str, Any] = {
    "allowUnixSockets": ["/run/docker.sock"],
    "allowAllUnixSockets": True,
    "allowMachLookup": ["com.example.*"],
    "allowLocalBinding": True,
    "httpProxyPort": 3128,
    "socksProxyPort": 1080,
    "mitmProxy": {"socketPath": "/run/x", "domains": ["a.example"]},
    "parentProxy": {"http": "http://proxy.example"},
    "tlsTerminate": {},
    "deniedDomainReasons": {"a.example": "no"},
}


def test_srt_settings_that_are_no_policy_are_noted():
    found = notes(srt("a.example", **SRT_LEFT_OUT) | {"filesystem": {"denyRead": []}, "allowPty": True})
    said_something = [key for key, value in SRT_LEFT_OUT.items() if value]
    for key in (*(f"network.{key}" for key in said_something), "filesystem", "allowPty"):
        assert f"{key}: was left out" in found
    assert "where srt opens every port" in found


def test_srt_settings_that_say_nothing_are_not_noted():
    assert notes(srt(allowLocalBinding=False, allowUnixSockets=[], strictAllowlist=True)) == ""


# Forge


@pytest.mark.parametrize(
    "lists",
    [
        {"allowed_domains": ["a.example"], "tool_domains": ["*.b.example"]},
        {"allowed_domains": [], "tool_domains": ["c.example"], "all_domains": ["a.example", "*.b.example"]},
        {"allowedDomains": ["a.example"], "toolDomains": ["*.b.example"], "allDomains": None},
    ],
)
def test_forge_allowlist(lists):
    assert said({"mode": "allowlist", "profile": "standard", **lists}) == {
        "mode": "block-all",
        "egress": {"allowed_domains": ["a.example", "*.b.example"]},
    }


def test_the_sum_of_the_lists_of_forge_counts_even_if_it_is_empty():
    assert said({"mode": "allowlist", "allowed_domains": ["a.example"], "all_domains": []}) == {"mode": "block-all"}


def test_forge_deny_all_grants_nothing():
    document = {"mode": "deny-all", "all_domains": ["a.example"], "allow_private_ips": True}
    assert said(document) == {"mode": "block-all"}
    assert "have no effect" in notes(document)


def test_forge_dev_open_is_open_and_says_so_loudly():
    assert said({"mode": "dev-open"}) == {"mode": "allow-all"}
    assert "OPENS THE WHOLE INTERNET" in notes({"mode": "dev-open"})


@pytest.mark.parametrize(
    ("value", "opened"), [(True, True), (False, False), (None, False), ("true", False), (1, False)]
)
def test_forge_private_addresses(value, opened):
    document = {"mode": "allowlist", "all_domains": ["a.example", "10.0.0.5"], "allow_private_ips": value}
    policy = imported(document).policy
    private = parse_address("10.0.0.5")
    assert policy.allow_private is opened
    assert allows(policy, to_name("a.example", 443, addresses=(private,))) is opened
    assert allows(policy, to_address(private, 443)) is opened
    assert ("taken for false" in notes(document)) is (value in ("true", 1) and value is not True)
    assert ("leaves out the private addresses" in notes(document)) is not opened


# Squid


def test_a_list_of_patterns():
    text = "# ours\n.a.example\nb.example   # exactly\n\n*.c.example\n192.0.2.1\n.com\n"
    assert said(text) == {
        "mode": "block-all",
        "egress": {
            "allowed_domains": [".a.example", "b.example"],
            "allowed_cidrs": ["192.0.2.1/32"],
            "allowed_ports": [80, 443],
        },
    }
    found = {problem.line: problem.message for problem in imported(text).notes}
    assert 'begins with "*."' in found[5]
    assert "was moved to the cidrs" in found[6]
    assert "would grant every site under com" in found[7]


TSK = """\
http_port 3128
acl SSL_ports port 443
acl Safe_ports port 80    # http
acl Safe_ports port 443   # https
acl CONNECT method CONNECT
acl allowed_domains dstdomain -n api.example .b.example \\
    c.example
acl allowed_domains dstdomain d.example
http_access deny !Safe_ports
http_access deny CONNECT !SSL_ports
acl manager proto cache_object
http_access deny manager
http_access deny to_localhost
http_access allow allowed_domains
http_access deny all
http_access allow all
cache deny all
"""


def test_the_usual_squid_conf():
    assert said(TSK) == {
        "mode": "block-all",
        "egress": {
            "allowed_domains": ["api.example", ".b.example", "c.example", "d.example"],
            "allowed_ports": [80, 443],
        },
    }
    assert 'leaves out what is not about destinations: "http_port", "cache"' in notes(TSK)


ACLS = """\
acl ours dstdomain .a.example
acl more dstdomain b.example
acl no dstdomain gist.a.example
acl nets dst 192.0.2.0/24
acl https port 443
acl high port 8000-9000
acl wide port 1-65535
acl us src 10.0.0.0/8
acl like dstdom_regex ^a
acl listed dstdomain "/etc/squid/listed"
acl none dstdomain
acl mixed dstdomain a.example
acl mixed src 10.0.0.0/8
"""


@pytest.mark.parametrize(
    ("lines", "policy"),
    [
        (
            "deny no\nhttp_access allow ours",
            {
                "egress": {"allowed_domains": [".a.example"], "allowed_ports": [80, 443]},
                "rules": [{"action": "deny", "domains": ["gist.a.example"]}],
            },
        ),
        (
            "allow ours\nhttp_access allow more\nhttp_access allow nets",
            {
                "egress": {
                    "allowed_domains": [".a.example", "b.example"],
                    "allowed_cidrs": ["192.0.2.0/24"],
                    "allowed_ports": [80, 443],
                }
            },
        ),
        (
            "allow more\nhttp_access deny nets\nhttp_access allow ours https",
            {
                "egress": {"allowed_domains": [".a.example"], "allowed_ports": [443]},
                "rules": [
                    {"action": "allow", "domains": ["b.example"], "ports": [80, 443]},
                    {"action": "deny", "cidrs": ["192.0.2.0/24"]},
                ],
            },
        ),
        (
            "allow ours https\nhttp_access allow CONNECT more high",
            {
                "rules": [
                    {"action": "allow", "domains": [".a.example"], "ports": [443]},
                    {"action": "allow", "domains": ["b.example"], "ports": ["8000-9000"]},
                ]
            },
        ),
        (
            "deny ours https\nhttp_access deny none",
            {"rules": [{"action": "deny", "domains": [".a.example"], "ports": [443]}]},
        ),
        ("allow ours all", {"egress": {"allowed_domains": [".a.example"], "allowed_ports": [80, 443]}}),
        (
            "deny !high\nhttp_access allow ours",
            {"egress": {"allowed_domains": [".a.example"], "allowed_ports": ["8000-9000"]}},
        ),
        (
            "deny CONNECT !https\nhttp_access allow ours",
            {"egress": {"allowed_domains": [".a.example"], "allowed_ports": [80, 443]}},
        ),
        (
            "deny !wide\nhttp_access deny !https CONNECT\nhttp_access allow ours",
            {"egress": {"allowed_domains": [".a.example"], "allowed_ports": [80, 443]}},
        ),
        (
            "deny CONNECT !https\nhttp_access allow CONNECT ours",
            {"egress": {"allowed_domains": [".a.example"], "allowed_ports": [443]}},
        ),
        ("deny\nhttp_access allow ours", {}),
    ],
)
def test_http_access_lines(lines, policy):
    assert said(f"{ACLS}http_access {lines}\n") == {"mode": "block-all", **policy}


@pytest.mark.parametrize(
    "line",
    [
        "allow all",
        "allow us ours",
        "allow like",
        "allow ours !no",
        "allow ours !https",
        "allow nobody",
        "allow mixed",
        "allow https",
        "allow CONNECT",
        "allow ours nets",
        "allow ours more",
        "allow ours https high",
        "allow listed",
        "allow none",
    ],
)
def test_an_allow_line_that_cannot_be_said_is_left_out(line):
    text = f"{ACLS}http_access {line}\nhttp_access deny all\n"
    assert said(text) == {"mode": "block-all"}
    assert "line 14: the line was left out: it " in notes(text)
    assert "the policy grants nothing" in notes(text)


@pytest.mark.parametrize("line", ["deny us no", "deny no !https", "deny no more", "deny no nets", "deny CONNECT no"])
def test_a_deny_line_that_cannot_be_said_denies_more(line):
    text = f"{ACLS}http_access {line}\nhttp_access allow ours\n"
    assert not allows(imported(text).policy, to_name("gist.a.example", 443))
    assert allows(imported(text).policy, to_name("a.example", 443))
    assert "line 14: denies more than in Squid" in notes(text)


@pytest.mark.parametrize(
    "line",
    [
        "http_access deny us",
        "http_access deny !ours",
        "http_access deny !us",
        "http_access deny like",
        "http_access deny CONNECT",
        "http_access deny listed",
        "http_access deny nobody",
        "http_access perhaps ours",
        "http_access",
        "http_access deny https !high CONNECT like !us mixed listed",
        "include /etc/squid/conf.d/*.conf",
        "ssl_bump terminate all",
        "if true",
        "url_rewrite_program /bin/x",
        "http_reply_access deny all",
    ],
)
def test_a_denial_of_squid_that_cannot_be_said_refuses_the_import(line):
    assert re.search(r"line (14|10): ", refusal(f"{ACLS}{line}\nhttp_access allow ours\n"))


@pytest.mark.parametrize("line", ["ssl_bump splice all", "http_reply_access allow all"])
def test_what_could_deny_but_does_not_is_passed_over(line):
    assert "line 14" not in notes(f"{ACLS}{line}\nhttp_access allow ours\n")


def test_ports_for_plain_http_alone_are_closed_with_a_note():
    text = f"{ACLS}http_access deny !wide\nhttp_access deny CONNECT !https\nhttp_access allow ours\n"
    assert "except 80, to which Squid lets plain HTTP pass alone" in notes(text)


def test_a_list_of_patterns_is_taken_for_grants_and_that_is_noted():
    assert "GRANTS what the list names" in notes("ads.example\n")


def test_a_list_that_hides_behind_a_familiar_name_is_not_passed_over():
    refusal("acl to_localhost src 10.0.0.0/8\nacl ours dstdomain a.example\nhttp_access deny to_localhost\n")


def test_a_line_may_be_continued_to_the_end_of_the_text():
    text = "acl ours dstdomain \\\n a.example \\\n b.example # both\nhttp_access allow \\\n ours \\"
    assert said(text)["egress"]["allowed_domains"] == ["a.example", "b.example"]


def test_a_list_in_a_file_is_noted():
    text = 'acl ours dstdomain a.example "/etc/squid/more"\nhttp_access allow ours'
    assert said(text)["egress"]["allowed_domains"] == ["a.example"]
    assert '"/etc/squid/more" was left out: it is a file' in notes(text)
