"""How many names may be used under a wildcard."""

import pytest

from belljar.gateway.dns.wildcards import WildcardBudget
from belljar.policy import CompiledPolicy, question
from tests.policy.documents import compiled


def admits(budget: WildcardBudget, policy: CompiledPolicy, name: str) -> bool:
    verdict = policy.decide(question(name))
    assert verdict.allowed
    return budget.admits(policy, verdict)


def test_names_under_a_wildcard_are_counted_and_stay_admitted():
    policy = compiled('mode: block-all\negress: {allowed_domains: ["*.ok.test"]}')
    budget = WildcardBudget(3)
    asked = ["a.ok.test", "b.ok.test", "a.ok.test", "x.y.z.ok.test", "c.ok.test", "b.ok.test", "d.ok.test"]
    assert [admits(budget, policy, name) for name in asked] == [True, True, True, True, False, True, False]


@pytest.mark.parametrize(
    ("document", "under"),
    [
        ('egress: {allowed_domains: ["*.ok.test"]}', "ok.test"),
        ("egress: {allowed_domains: [.ok.test]}", "ok.test"),
        ('egress: {allowed_domains: ["*.ok.test:22", "*.ok.test:443"]}', "ok.test"),
        ('rules: [{action: allow, domains: ["*.ok.test"]}]', "ok.test"),
        ('egress: {allowed_domains: ["*.ok.test", "*.deep.ok.test"]}', "deep.ok.test"),
        ("presets: [{node: .ok.test}]", "ok.test"),
        ('rules: [{action: deny, domains: [no.ok.test]}]\negress: {allowed_domains: ["*.ok.test"]}', "ok.test"),
        ('egress: {allowed_domains: ["*.corp.internal"]}', "corp.internal"),
    ],
)
def test_every_kind_of_wildcard_has_a_budget(document, under):
    policy = compiled(f"mode: block-all\n{document}")
    budget = WildcardBudget(10)
    assert sum(admits(budget, policy, f"h{number}.{under}") for number in range(20)) == 10
    assert not admits(budget, policy, f"{'deep.' * 40}{under}")


def test_each_wildcard_has_a_budget_of_its_own():
    policy = compiled('mode: block-all\negress: {allowed_domains: ["*.ok.test", "*.good.test"]}')
    budget = WildcardBudget(1)
    assert admits(budget, policy, "a.ok.test")
    assert admits(budget, policy, "a.good.test")
    assert not admits(budget, policy, "b.good.test")


def test_names_that_are_granted_one_by_one_are_not_counted():
    listed = ", ".join(f"h{number}.ok.test" for number in range(50))
    policy = compiled(f'mode: block-all\negress: {{allowed_domains: [{listed}, ".ok.test"]}}')
    budget = WildcardBudget(1)
    assert admits(budget, policy, "other.ok.test")
    assert not admits(budget, policy, "another.ok.test")
    assert all(admits(budget, policy, f"h{number}.ok.test") for number in range(50))
    assert admits(budget, policy, "ok.test")


@pytest.mark.parametrize(
    "document",
    [
        "mode: allow-all",
        "mode: block-all\nrules: [{action: allow, ports: [22]}]",
        'mode: allow-all\nrules: [{action: allow, domains: ["*.zone.test"]}]',
    ],
)
def test_where_every_name_is_open_nothing_is_counted(document):
    policy = compiled(document)
    budget = WildcardBudget(1)
    assert all(admits(budget, policy, f"h{number}.zone.test") for number in range(50))


def test_a_new_policy_gives_no_fresh_budget():
    budget = WildcardBudget(2)
    first = compiled('mode: block-all\negress: {allowed_domains: ["*.ok.test"]}')
    second = compiled('mode: block-all\negress: {allowed_domains: [new.test, "*.ok.test"]}', generation=2)
    assert admits(budget, first, "a.ok.test")
    assert admits(budget, second, "b.ok.test")
    assert admits(budget, second, "a.ok.test")
    assert not admits(budget, second, "c.ok.test")


def test_a_name_is_counted_once_its_own_entry_is_gone():
    budget = WildcardBudget(1)
    first = compiled('mode: block-all\negress: {allowed_domains: [a.ok.test, "*.ok.test"]}')
    second = compiled('mode: block-all\negress: {allowed_domains: ["*.ok.test"]}', generation=2)
    assert admits(budget, first, "a.ok.test")
    assert admits(budget, first, "b.ok.test")
    assert not admits(budget, second, "a.ok.test")


def test_the_services_of_the_host_are_not_counted():
    policy = compiled("mode: block-all\nhost_ports: [5432]")
    budget = WildcardBudget(0)
    assert admits(budget, policy, "host.belljar.internal")
