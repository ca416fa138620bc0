"""Printing: one normal form in each syntax, which reads back as the same policy."""

import json
import tomllib

import pytest
import yaml
from hypothesis import given

from belljar.policy import Mode, Policy, Syntax, read_policy, render
from belljar.policy.language.render import to_data
from tests.policy.documents import compiled, read
from tests.policy.strategies import policies, unhurried

EVERYTHING = """\
mode: block-all
egress:
  allowed_domains: [API.Anthropic.com., "*.github.com", "db.corp.example:5432", .bücher.example, no]
  denied_domains: ["*.com", "1.example"]
  allowedCidrs: [10.2.0.0/16, 10.2.0.1, "2001:DB8::/32"]
  allowed_ports: ["443", 8000-8100, 123/udp, 5-5]
rules:
  - {name: "no", action: deny, domains: [gist.github.com]}
  - {protocol: udp, ports: [53], action: allow, cidrs: [192.0.2.0/24]}
presets: [anthropic, python: registry.corp.example, node: [a.corp.example, "b.corp.example:8443"]]
hostPorts: [5432]
services:
  anthropic: {}
  web: {port: 8080, at: 8080}
  "no": {socket: /run/ü.sock}
  llm:
    url: HTTPS://LLM.Corp.Example/v1/
    header: {X-Team: "a", Authorization: "Bearer ${LLM_KEY}"}
    budget: {dollars: "2.50", requests: 10}
    sharedBudget: {group: nightly, inputTokens: 5}
allowPrivate: true
"""

AS_YAML = """\
mode: block-all
egress:
  allowed_domains:
    - api.anthropic.com
    - "*.github.com"
    - "db.corp.example:5432"
    - ".xn--bcher-kva.example"
    - "no"
  allowed_cidrs:
    - "10.2.0.0/16"
    - "10.2.0.1/32"
    - "2001:db8::/32"
  allowed_ports:
    - 443
    - "8000-8100"
    - "123/udp"
    - 5
  denied_domains:
    - "*.com"
    - "1.example"
rules:
  - {name: "no", action: deny, domains: [gist.github.com]}
  - {action: allow, cidrs: ["192.0.2.0/24"], ports: [53], protocol: udp}
presets:
  - anthropic
  - {python: registry.corp.example}
  - {node: [a.corp.example, "b.corp.example:8443"]}
host_ports:
  - 5432
services:
  anthropic: {}
  web: {port: 8080}
  "no": {socket: "/run/ü.sock"}
  llm: {url: "https://llm.corp.example/v1", header: {authorization: "Bearer ${LLM_KEY}", x-team: "a"}, \
budget: {requests: 10, dollars: 2.5}, shared_budget: {group: nightly, input_tokens: 5}}
allow_private: true
"""

AS_TOML = """\
mode = "block-all"
presets = ["anthropic", {python = "registry.corp.example"}, {node = ["a.corp.example", "b.corp.example:8443"]}]
host_ports = [5432]
allow_private = true

[egress]
allowed_domains = ["api.anthropic.com", "*.github.com", "db.corp.example:5432", ".xn--bcher-kva.example", "no"]
allowed_cidrs = ["10.2.0.0/16", "10.2.0.1/32", "2001:db8::/32"]
allowed_ports = [443, "8000-8100", "123/udp", 5]
denied_domains = ["*.com", "1.example"]

[services]
anthropic = {}
web = {port = 8080}
no = {socket = "/run/ü.sock"}
llm = {url = "https://llm.corp.example/v1", header = {authorization = "Bearer ${LLM_KEY}", x-team = "a"}, \
budget = {requests = 10, dollars = 2.5}, shared_budget = {group = "nightly", input_tokens = 5}}

[[rules]]
name = "no"
action = "deny"
domains = ["gist.github.com"]

[[rules]]
action = "allow"
cidrs = ["192.0.2.0/24"]
ports = [53]
protocol = "udp"
"""


def test_yaml():
    assert render(read(EVERYTHING), Syntax.YAML) == AS_YAML


def test_toml():
    assert render(read(EVERYTHING), Syntax.TOML) == AS_TOML


def test_json():
    text = render(read(EVERYTHING), Syntax.JSON)
    assert json.loads(text) == yaml.safe_load(AS_YAML)
    assert list(json.loads(text)) == list(to_data(read(EVERYTHING)))
    assert text.isascii()
    assert text.endswith("}\n")


@pytest.mark.parametrize("syntax", Syntax)
@pytest.mark.parametrize("mode", Mode)
def test_what_is_empty_is_not_printed(mode, syntax):
    text = render(Policy(mode), syntax)
    assert mode.value in text
    assert len(text.split()) <= 4
    assert read(text, syntax) == Policy(mode)


@pytest.mark.parametrize("word", ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "e1", "inf", "nan"])
def test_names_that_look_like_other_values_stay_names(word):
    policy = read(f'{{mode: block-all, egress: {{allowed_domains: ["{word}", "{word}.example"]}}}}')
    assert yaml.safe_load(render(policy, Syntax.YAML))["egress"]["allowed_domains"] == [word, f"{word}.example"]


@unhurried
@given(policies(presets=True))
def test_other_readers_read_the_same(policy):
    """What is printed means to the usual YAML, JSON and TOML readers what it means here."""
    data = to_data(policy)
    assert yaml.safe_load(render(policy, Syntax.YAML)) == data
    assert json.loads(render(policy, Syntax.JSON)) == data
    assert tomllib.loads(render(policy, Syntax.TOML)) == data


@unhurried
@given(policies(presets=True))
def test_a_policy_goes_round_all_syntaxes(policy):
    again = policy
    for syntax in Syntax:
        again = read_policy(render(again, syntax), syntax).policy
    assert again == policy


IN_BLOCK_STYLE = """\
mode: block-all
allow_private: false
rules: []
egress:
  allowed_domains:
  - a.example
  - BÜCHER.example
  allowed_ports: [443-443]
"""


def test_the_digest_is_of_the_meaning_not_of_the_spelling():
    texts = (
        "{mode: block-all, egress: {allowed_domains: [a.example, bücher.example], allowed_ports: [443]}}",
        "{egress: {allowedPorts: ['443'], allowedDomains: [A.example., xn--bcher-kva.example]}, mode: block-all}",
        IN_BLOCK_STYLE,
    )
    assert len({compiled(text).digest for text in texts}) == 1


@pytest.mark.parametrize(
    "other",
    [
        "{mode: allow-all, egress: {allowed_domains: [a.example]}}",
        "{mode: block-all, egress: {allowed_domains: [b.example]}}",
        "{mode: block-all, egress: {allowed_domains: ['*.a.example']}}",
        "{mode: block-all, egress: {allowed_domains: [.a.example]}}",
        "{mode: block-all, egress: {allowed_domains: ['a.example:443']}}",
        "{mode: block-all, egress: {denied_domains: [a.example]}}",
        "{mode: block-all, egress: {allowed_domains: [a.example]}, allow_private: true}",
        "{mode: block-all, egress: {allowed_domains: [a.example]}, host_ports: [1]}",
        "{mode: block-all, egress: {allowed_domains: [a.example]}, presets: [anthropic]}",
        "{mode: block-all, egress: {allowed_domains: [a.example]}, services: {anthropic: {}}}",
        "{mode: block-all, egress: {allowed_domains: [a.example]}, rules: [{action: deny, ports: [1]}]}",
        "{mode: block-all, egress: {allowed_domains: [a.example], allowed_ports: [443]}}",
        "{mode: block-all, egress: {allowed_domains: [a.example], allowed_ports: [443/tcp]}}",
    ],
)
def test_what_means_something_else_has_another_digest(other):
    assert compiled(other).digest != compiled("{mode: block-all, egress: {allowed_domains: [a.example]}}").digest
