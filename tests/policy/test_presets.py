"""Presets: fixed bundles, hosts that tools are asked for, and hosts that the policy names in their place."""

from dataclasses import dataclass

import pytest

from belljar.errors import BelljarError
from belljar.names import canonical_name
from belljar.policy import InvalidPolicyError, compile_policy, to_name
from belljar.policy.language.render import flatten
from belljar.policy.model import DomainPattern, PresetUse, Scope
from belljar.policy.presets import PRESETS, Discover, expand
from tests.policy.documents import ask, compiled, outcome, read


@dataclass(frozen=True)
class Host:
    host: str
    port: int = 443
    why: str = "because"


def answering(**answers: list[Host]) -> Discover:
    """Return a discovery in which only these tools are installed."""

    def discover(tool: str) -> list[Host]:
        if tool in answers:
            return answers[tool]
        raise BelljarError(
            f"{tool} is not installed; name the host instead: presets: [{{{tool}: registry.corp.example}}]"
        )

    return discover


TOOLS = sorted(preset.tool for preset in PRESETS.values() if preset.tool)
NEEDED = sorted(name for name, preset in PRESETS.items() if preset.tool_needed)
FIXED = ["anthropic", "github", "openai"]


NO_TOOLS = answering()


def hosts(name: str, discover: Discover = NO_TOOLS, *named: DomainPattern) -> set[str]:
    [entries] = expand([PresetUse(name, named)], discover).entries
    return {str(entry.pattern) for entry in entries}


@pytest.mark.parametrize("name", FIXED)
def test_fixed_presets_ask_nobody(name):
    def nobody(tool: str) -> list[Host]:
        pytest.fail(f"{tool} was asked")

    expansion = expand([PresetUse(name)], nobody)
    assert expansion.warnings == ()
    assert hosts(name, nobody)


@pytest.mark.parametrize("name", PRESETS)
def test_every_entry_is_one_host_over_tls_with_a_reason(name):
    preset = PRESETS[name]
    assert preset.summary
    for entry in preset.entries:
        assert entry.why
        assert entry.pattern.port == 443
        assert entry.pattern.scope is Scope.EXACT
        assert canonical_name(entry.pattern.name) == entry.pattern.name


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_named_in_a_policy(name):
    assert read(f"{{mode: block-all, presets: [{name}]}}").presets == (PresetUse(name),)


def test_the_model_apis():
    assert "api.anthropic.com:443" in hosts("anthropic")
    assert "api.openai.com:443" in hosts("openai")
    assert {"github.com:443", "api.github.com:443"} <= hosts("github")


def test_discovered_hosts_are_granted_on_their_port():
    discover = answering(python=[Host("pip.corp.example", 8443), Host("files.corp.example")])
    policy = compiled("{mode: block-all, presets: [python]}", discover=discover)
    assert outcome(ask(policy, "pip.corp.example:8443")) == "allow allowed_domain presets[0]"
    assert outcome(ask(policy, "files.corp.example:443")) == "allow allowed_domain presets[0]"
    assert not ask(policy, "pip.corp.example:443").allowed
    assert not ask(policy, "x.pip.corp.example:8443").allowed
    assert [entry.why for entry in policy.expansion.entries[0]] == ["because", "because"]


@pytest.mark.parametrize("name", NEEDED)
def test_a_tool_that_is_needed_and_absent_is_an_error_with_the_remedy(name):
    with pytest.raises(InvalidPolicyError) as caught:
        compiled(f"{{mode: block-all, presets: [anthropic, {name}]}}", discover=answering())
    [problem] = caught.value.problems
    assert problem.where == "presets[1]"
    assert "is not installed" in problem.message
    assert "presets: [{" in problem.message, "how to name the host instead"


@pytest.mark.parametrize("name", NEEDED)
def test_without_discovery_the_remedy_is_to_name_the_host(name):
    with pytest.raises(InvalidPolicyError, match="not looked up here; name them instead"):
        compiled(f"{{mode: block-all, presets: [{name}]}}")
    assert ask(compiled(f"{{mode: block-all, presets: [{name}: r.corp.example]}}"), "r.corp.example").allowed


def test_all_absent_tools_are_reported_at_once():
    with pytest.raises(InvalidPolicyError) as caught:
        compiled("{mode: block-all, presets: [python, anthropic, node]}", discover=answering())
    assert [problem.where for problem in caught.value.problems] == ["presets[0]", "presets[2]"]


@pytest.mark.parametrize("name", ["rust", "go", "java"])
def test_a_tool_that_only_adds_hosts_may_be_absent(name):
    expansion = expand([PresetUse(name)], answering())
    [warning] = expansion.warnings
    assert warning.where == "presets[0]"
    assert "is not installed" in warning.message
    assert hosts(name) == {str(entry.pattern) for entry in PRESETS[name].entries}
    assert hosts(name, answering(**{name: [Host("mirror.corp.example")]})) > hosts(name)


@pytest.mark.parametrize("name", [name for name, preset in PRESETS.items() if preset.tool])
def test_hosts_named_in_the_policy_stand_in_for_the_tool(name):
    def nobody(tool: str) -> list[Host]:
        pytest.fail(f"{tool} was asked")

    named = (
        DomainPattern("r.corp.example"),
        DomainPattern("corp.example", Scope.BELOW),
        DomainPattern("s.example", port=9),
    )
    fixed = {str(entry.pattern) for entry in PRESETS[name].entries}
    assert hosts(name, nobody, *named) == fixed | {
        "r.corp.example:443",
        "r.corp.example:80",
        "*.corp.example:443",
        "*.corp.example:80",
        "s.example:9",
    }


def test_agent_default_is_the_union_of_its_members():
    discover = answering(**{tool: [Host(f"{tool}.corp.example")] for tool in TOOLS})
    members = PRESETS["agent-default"].members
    assert set(members) <= set(PRESETS)
    own = {str(entry.pattern) for entry in PRESETS["agent-default"].entries}
    assert hosts("agent-default", discover) == own.union(*(hosts(member, discover) for member in members))


def test_agent_default_does_without_the_tools_that_are_absent():
    expansion = expand([PresetUse("agent-default")], answering(python=[Host("pip.corp.example")]))
    assert {warning.where for warning in expansion.warnings} == {"presets[0]"}
    assert {warning.message.partition(":")[0] for warning in expansion.warnings} == {"node", "rust", "go", "java"}
    granted = hosts("agent-default", answering(python=[Host("pip.corp.example")]))
    assert {"api.anthropic.com:443", "pip.corp.example:443"} <= granted


def test_presets_keep_their_ports_whatever_allowed_ports_says():
    policy = compiled("{mode: block-all, egress: {allowed_ports: [22]}, presets: [anthropic]}")
    assert ask(policy, "api.anthropic.com:443").allowed
    assert not ask(policy, "api.anthropic.com:22").allowed


def test_presets_grant_nothing_in_allow_all_and_a_rule_outranks_them():
    rule = "rules: [{action: deny, domains: [anthropic.com]}]"
    assert outcome(ask(compiled(f"{{mode: block-all, presets: [anthropic], {rule}}}"), "api.anthropic.com")) == (
        "deny denied_by_rule rules[0]"
    )
    assert outcome(ask(compiled("{mode: allow-all, presets: [anthropic]}"), "api.anthropic.com:443")) == (
        "allow allowed_by_default mode"
    )


def test_a_flattened_policy_names_the_hosts_and_decides_alike():
    discover = answering(python=[Host("pip.corp.example", 8443)])
    policy = read("{mode: block-all, egress: {allowed_domains: [a.example]}, presets: [python, anthropic, python]}")
    with_presets = compile_policy(policy, discover=discover)
    flat = flatten(policy, with_presets.expansion)
    assert flat.presets == ()
    assert [str(pattern) for pattern in flat.egress.allowed_domains] == [
        "a.example",
        "pip.corp.example:8443",
        *(f"{entry.pattern}" for entry in PRESETS["anthropic"].entries),
    ]
    without = compile_policy(flat)
    for name in ("a.example", "pip.corp.example", "api.anthropic.com", "b.example", "x.pip.corp.example"):
        for port in (22, 80, 443, 8443):
            flow = to_name(name, port)
            assert without.decide(flow).action == with_presets.decide(flow).action


def test_the_digest_follows_what_the_tools_answer():
    def digest(*found: Host) -> str:
        return compiled("{mode: block-all, presets: [python]}", discover=answering(python=list(found))).digest

    assert digest(Host("a.example")) == digest(Host("a.example", why="another reason"))
    assert digest(Host("a.example")) != digest(Host("b.example"))
    assert digest(Host("a.example")) != digest(Host("a.example", 80))
