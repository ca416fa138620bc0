"""What is written down and sent of a policy means on the other side what it meant on this one."""

import json
from ipaddress import ip_address

import pytest
from hypothesis import given

from belljar.policy import Mode, Policy, ResolvedPolicy, Syntax, compile_policy, read_policy, resolve
from belljar.policy.language.normal import normal_policy
from belljar.policy.language.render import to_data
from belljar.policy.model import Action, DomainPattern, Rule, Scope
from tests.policy.strategies import policies

DOCUMENT = """\
mode: block-all
egress:
  allowed_domains: ["*.wild.example", ".apex.example:8443", "db.example:5432"]
  allowed_cidrs: [10.2.0.0/16, "2001:db8::/32"]
  allowed_ports: [443, "8000-8100", "123/udp"]
rules: [{name: no-gists, action: deny, domains: [gist.example], ports: [443], protocol: tcp}]
presets: [github, {python: mirror.example}]
host_ports: [5432, "6000-6010"]
services: {anthropic: {budget: {dollars: 2.5}}, db: {address: "10.1.2.3:5432"}}
allow_private: true
"""
HOST = (ip_address("192.0.2.1"), ip_address("::5"))


def sent(resolved: ResolvedPolicy) -> ResolvedPolicy:
    """Return what arrives of a policy."""
    return ResolvedPolicy.from_data(json.loads(json.dumps(resolved.to_data())))


@pytest.fixture
def policy() -> Policy:
    return read_policy(DOCUMENT, Syntax.YAML).policy


def test_a_policy_is_the_same_on_the_other_side(policy):
    compiled = compile_policy(policy, generation=7, host_addresses=HOST)
    again = sent(resolve(policy, generation=7, host_addresses=HOST)).compile()
    for part in (
        "policy",
        "mode",
        "generation",
        "digest",
        "expansion",
        "host_ports",
        "services",
        "denies_ranges",
        "host_addresses",
    ):
        assert getattr(again, part) == getattr(compiled, part)


@given(policies())
def test_the_normal_form_of_a_policy_is_read_as_that_policy(policy):
    assert normal_policy(json.loads(json.dumps(to_data(policy)))) == policy


def test_ports_of_the_host_are_known_before_it_is_compiled(policy):
    assert resolve(policy).host_ports == policy.host_ports


@given(policies())
def test_both_say_alike_whether_ranges_are_denied(policy):
    plain = Policy(policy.mode, policy.egress, policy.rules)
    resolved = resolve(plain)
    assert resolved.denies_ranges == resolved.compile().denies_ranges


def test_more_rules_come_after_its_own(policy):
    opened = Rule(Action.ALLOW, domains=(DomainPattern("more.example", Scope.BELOW),))
    more = resolve(policy).with_more([opened], generation=3)
    assert (more.policy().rules, more.generation) == ((*policy.rules, opened), 3)
    assert resolve(policy).with_more([], generation=3).document == to_data(policy)


def test_a_policy_of_nothing_but_a_mode(policy):
    assert sent(resolve(Policy(Mode.ALLOW_ALL))).policy() == Policy(Mode.ALLOW_ALL)
