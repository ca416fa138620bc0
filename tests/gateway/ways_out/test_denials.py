"""How a denial looks: in the protocol that is spoken, under one reason id everywhere."""

import ssl

import dns.edns
import dns.message
import dns.query
import dns.rcode
import pytest

from tests.gateway.ways_out.agents import TurnedAwayError
from tests.universe import addresses


def test_http_has_403_with_a_problem(agent):
    page = agent.get(addresses.EVIL, called="evil.test")
    assert page.status == 403
    assert page.problem == {
        "type": "about:blank",
        "status": 403,
        "title": "Denied by the sandbox's network policy",
        "detail": "evil.test:80 is not among the allowed domains.",
        "reason": "not_allowed_domain",
        "rule": "mode",
        "generation": 1,
        "advice": "The policy decides this; do not retry.",
    }
    assert agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("door", ["connect", "connect6"])
def test_a_tunnel_has_the_same(agent, door):
    with pytest.raises(TurnedAwayError) as denied:
        agent.dial("evil.test", 443, door)
    assert denied.value.answer.status == 403
    assert denied.value.answer.problem["reason"] == agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works(door)


@pytest.mark.parametrize("door", ["absolute", "absolute6"])
def test_a_request_to_the_proxy_has_the_same(agent, door):
    assert agent.get("evil.test", door=door).problem["reason"] == agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works(door)


@pytest.mark.parametrize("door", ["socks", "socks6"])
def test_socks_has_not_allowed(agent, door):
    with pytest.raises(TurnedAwayError) as denied:
        agent.dial("evil.test", 443, door)
    assert denied.value.answer == 2
    assert agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works(door)


@pytest.mark.parametrize("address", [addresses.EVIL, addresses.EVIL_V6])
def test_tls_has_an_alert(agent, address):
    with pytest.raises(ssl.SSLError, match="TLSV1_ALERT_ACCESS_DENIED"):
        agent.handshake(address, "evil.test")
    assert agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize(
    "data",
    [b"", b"SSH-2.0-agent\r\n", b"\0\1\2\3", b"x" * 1000000, b"hello world " * 100000],
    ids=["nothing", "ssh", "binary", "word", "text"],
)
@pytest.mark.parametrize("address", [addresses.EVIL, addresses.EVIL_V6])
def test_everything_else_has_a_reset(agent, address, data):
    assert agent.is_reset(address, addresses.SSH, data)
    assert agent.reason() == "not_allowed_address"
    assert agent.reached_nobody()
    assert agent.works()


@pytest.mark.parametrize("tcp", [False, True], ids=["udp", "tcp"])
def test_dns_has_refused_with_an_extended_error(agent, tcp):
    answer = agent.sandbox.resolve("evil.test", tcp=tcp)
    [error] = [option for option in answer.options if isinstance(option, dns.edns.EDEOption)]
    assert answer.rcode() == dns.rcode.REFUSED
    assert error.code == dns.edns.EDECode.BLOCKED
    assert error.text == "not_allowed_domain: evil.test is not among the allowed domains."
    assert agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works()


def test_a_stub_resolver_without_edns_has_no_such_name(agent):
    query = dns.message.make_query("evil.test", "A", use_edns=False)
    answer = agent.sandbox.call(dns.query.udp, query, "127.0.0.1", 10)
    assert answer.rcode() == dns.rcode.NXDOMAIN
    assert agent.reason() == "not_allowed_domain"
    assert agent.reached_nobody()
    assert agent.works()


ALLOW_ALL = """
mode: allow-all
egress:
  denied_domains: [evil.test]
  denied_cidrs: [203.0.113.11]
  denied_ports: [5432]
rules: [{name: no-cdn, action: deny, domains: [one.cdn.test]}]
host_ports: [7]
"""


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("evil.test", 80, "denied_domain"),
        ("sub.evil.test", 80, "denied_domain"),
        ("other.test", 80, "denied_cidr"),
        (addresses.OTHER_PUBLIC, 80, "denied_cidr"),
        ("v4.test", 5432, "denied_port"),
        ("one.cdn.test", 80, "denied_by_rule"),
        ("private.test", 80, "reserved_address"),
        ("127.0.0.1", 80, "reserved_address"),
        ("localhost", 80, "reserved_name"),
        ("host.belljar.internal", 22, "host_port_not_allowed"),
    ],
)
def test_one_reason_everywhere_in_allow_all(share, host, port, reason):
    agent = share(ALLOW_ALL)
    for door in ("connect", "socks"):
        with pytest.raises(TurnedAwayError) as denied:
            agent.dial(host, port, door)
        if door == "connect":
            assert denied.value.answer.problem["reason"] == reason
        assert agent.reason() == reason
    assert agent.reached_nobody(but_resolver=True)
    assert agent.works()


@pytest.mark.parametrize(
    ("host", "port", "reason"),
    [
        ("evil.test", 80, "not_allowed_domain"),
        (addresses.EVIL, 80, "not_allowed_address"),
        ("plain.test", 81, "port_not_allowed"),
        ("localhost", 80, "reserved_name"),
        ("host.docker.internal", 80, "host_port_not_allowed"),
        (addresses.GATEWAY, 80, "reserved_address"),
    ],
)
def test_one_reason_everywhere_in_block_all(agent, host, port, reason):
    with pytest.raises(TurnedAwayError) as denied:
        agent.dial(host, port, "connect")
    assert denied.value.answer.problem["reason"] == agent.reason() == reason
    assert agent.reached_nobody()
    assert agent.works()


def test_without_a_policy_nothing_is_reached_and_the_reason_says_so(enter, serving):
    agent = enter("mode: block-all\negress: {allowed_domains: [plain.test]}")
    assert agent.works()
    agent.universe.forget()
    serving.do(lambda: setattr(agent.jar, "policy", None))
    with pytest.raises(TurnedAwayError) as denied:
        agent.dial("plain.test", 80, "connect")
    assert denied.value.answer.problem["reason"] == agent.reason() == "policy_missing"
    assert agent.reached_nobody()
