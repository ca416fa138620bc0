"""Policies as the SDK has them: what is written is what the policy language reads."""

import pytest

from belljar.client import BugError, Egress, NetworkPolicy, Rule
from belljar.policy import policy_from
from belljar.policy.language.reading import Reading
from belljar.policy.language.render import to_data

EVERYTHING = {
    "mode": "block-all",
    "egress": {
        "allowed_domains": ["github.com", "*.example.org"],
        "allowed_cidrs": ["10.2.0.0/16"],
        "allowed_ports": [443, "8000-8100"],
        "denied_domains": ["facebook.com"],
        "denied_cidrs": ["192.0.2.0/24"],
        "denied_ports": [25],
    },
    "rules": [
        {"name": "no-gists", "action": "deny", "domains": ["gist.github.com"]},
        {"action": "allow", "cidrs": ["10.0.0.0/8"], "ports": ["53/udp"], "protocol": "udp"},
    ],
    "presets": ["python", {"node": "registry.corp.example"}],
    "host_ports": [5432],
    "services": {"anthropic": {}, "db": {"address": "10.1.2.3:5432"}},
    "allow_private": True,
}


@pytest.mark.parametrize("document", [EVERYTHING, {"mode": "allow-all"}])
def test_a_document_comes_back_as_it_was(document):
    assert NetworkPolicy.of(document).to_data() == document
    assert to_data(policy_from(Reading(NetworkPolicy.of(document).to_data())).policy) == document


def test_the_tag_is_no_part_of_what_a_policy_says():
    assert NetworkPolicy("allow-all", etag='"1"') == NetworkPolicy("allow-all")
    assert "etag" not in NetworkPolicy("allow-all", etag='"1"').to_data()


@pytest.mark.parametrize(
    "document",
    [
        {"mode": "block-all", "quota": 3},
        {"mode": "block-all", "egress": {"denied_countries": ["xx"]}},
        {"mode": "block-all", "rules": [{"action": "deny", "asn": 7}]},
        {},
    ],
)
def test_what_is_not_known_is_refused_and_never_dropped(document):
    with pytest.raises(BugError, match="update it"):
        NetworkPolicy.of(document)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Egress(allowed_domains="github.com"),
        lambda: Rule("deny", domains="github.com"),
        lambda: NetworkPolicy("block-all", presets="python"),
    ],
)
def test_one_text_is_no_list(make):
    with pytest.raises(TypeError, match="write a list"):
        make()
