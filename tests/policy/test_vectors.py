"""The vectors that any implementation of the policy has to agree with."""

import json
from ipaddress import ip_address
from pathlib import Path

import pytest

from belljar.names import SpellingError, canonical_name, parse_address, parse_host, parse_ipv4
from belljar.policy import CompiledPolicy, Syntax, classify, compile_policy, to_address, to_name
from tests.policy.documents import ask, problems, read, shown

VECTORS = Path(__file__).parent.parent / "vectors"
ADDRESSES = json.loads((VECTORS / "addresses.json").read_text())
DOMAINS = json.loads((VECTORS / "domains.json").read_text())
HOST_PORTS = json.loads((VECTORS / "host_ports.json").read_text())
IPV4 = json.loads((VECTORS / "ipv4_spelling.json").read_text())


def block_all(**egress: list[str]) -> str:
    return json.dumps({"mode": "block-all", "egress": egress})


def granting(**egress: list[str]) -> CompiledPolicy:
    return compile_policy(read(block_all(**egress), Syntax.JSON))


@pytest.mark.parametrize("case", DOMAINS["match"], ids=lambda case: f"{case['patterns']}-{case['host']}")
def test_domain_grants(case):
    policy = granting(allowed_domains=case["patterns"])
    assert policy.decide(to_name(canonical_name(case["host"]), 443)).allowed is case["match"]
    assert ask(policy, case["host"]).allowed is case["match"]
    assert ask(policy, f"https://{case['host']}/path").allowed is case["match"]


@pytest.mark.parametrize("pattern", DOMAINS["invalid_patterns"], ids=shown)
def test_domain_patterns_that_are_refused(pattern):
    [problem] = problems(block_all(allowed_domains=["ok.example", pattern]), Syntax.JSON)
    assert problem.where == "egress.allowed_domains[1]"
    assert problem.message.startswith(json.dumps(pattern))


@pytest.mark.parametrize("case", ADDRESSES["classes"], ids=lambda case: case["address"])
def test_address_classes(case):
    assert classify(ip_address(case["address"])) == case["class"]


@pytest.mark.parametrize("key", ["allowed_cidrs", "denied_cidrs"])
@pytest.mark.parametrize("cidr", ADDRESSES["cidr"]["accept"])
def test_cidrs_that_are_read(cidr, key):
    [network] = getattr(read(block_all(**{key: [cidr]}), Syntax.JSON).egress, key)
    assert str(network).removesuffix("/32") == cidr.removesuffix("/32")


@pytest.mark.parametrize("key", ["allowed_cidrs", "denied_cidrs"])
@pytest.mark.parametrize("cidr", ADDRESSES["cidr"]["reject"])
def test_cidrs_that_are_refused(cidr, key):
    [problem] = problems(block_all(**{key: [cidr]}), Syntax.JSON)
    assert problem.where == f"egress.{key}[0]"


@pytest.mark.parametrize("case", ADDRESSES["grants"], ids=lambda case: f"{case['allowed_cidrs']}-{case['address']}")
def test_cidr_grants(case):
    policy = granting(allowed_cidrs=case["allowed_cidrs"])
    address = ip_address(case["address"])
    for port in (1, 22, 443, 65535):
        assert policy.decide(to_address(address, port)).allowed is case["granted"]


@pytest.mark.parametrize(("name", "port", "granted"), HOST_PORTS["cases"])
def test_grants_with_ports(name, port, granted):
    policy = granting(allowed_domains=HOST_PORTS["entries"])
    assert policy.decide(to_name(name, port)).allowed is granted


@pytest.mark.parametrize("text", IPV4["accept"])
def test_ipv4_spellings_that_are_read(text):
    assert str(parse_ipv4(text)) == str(parse_address(text)) == str(parse_host(text)) == text


@pytest.mark.parametrize("text", IPV4["reject"])
def test_ipv4_spellings_that_are_refused(text):
    with pytest.raises(SpellingError):
        parse_ipv4(text)
    with pytest.raises(SpellingError):
        parse_address(text)
    if text != "example.com":
        with pytest.raises(SpellingError):
            parse_host(text)
