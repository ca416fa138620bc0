"""Destinations as people write them."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from belljar.errors import BelljarError
from belljar.policy import Protocol, explain, parse_destination, to_address, to_name
from belljar.policy.explain import UnreadableDestinationError
from tests.policy.documents import compiled, shown
from tests.policy.strategies import unhurried

V4, V6 = ip_address("192.0.2.1"), ip_address("2001:db8::1")


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("a.example", to_name("a.example", 443)),
        ("A.Example.", to_name("a.example", 443)),
        ("bücher.example", to_name("xn--bcher-kva.example", 443)),
        ("localhost", to_name("localhost", 443)),
        ("a.example:22", to_name("a.example", 22)),
        ("a.example/tcp", to_name("a.example", 443)),
        ("a.example:53/udp", to_name("a.example", 53, Protocol.UDP)),
        ("a.example/udp", to_name("a.example", 443, Protocol.UDP)),
        ("192.0.2.1", to_address(V4, 443)),
        ("192.0.2.1:22", to_address(V4, 22)),
        ("192.0.2.1:53/udp", to_address(V4, 53, Protocol.UDP)),
        ("2001:db8::1", to_address(V6, 443)),
        ("2001:db8::1/udp", to_address(V6, 443, Protocol.UDP)),
        ("[2001:db8::1]", to_address(V6, 443)),
        ("[2001:db8::1]:22", to_address(V6, 22)),
        ("[2001:DB8:0::1]:53/udp", to_address(V6, 53, Protocol.UDP)),
        ("https://a.example", to_name("a.example", 443)),
        ("HTTPS://A.EXAMPLE/Path?q=1#f", to_name("a.example", 443)),
        ("http://a.example/", to_name("a.example", 80)),
        ("http://a.example:8080/path", to_name("a.example", 8080)),
        ("https://user:secret@a.example/", to_name("a.example", 443)),
        ("https://ok.example:443@evil.example/", to_name("evil.example", 443)),
        ("https://a.example?u=https://b.example", to_name("a.example", 443)),
        ("https://a.example#@b.example", to_name("a.example", 443)),
        ("https://a.example/@b.example", to_name("a.example", 443)),
        ("https://192.0.2.1/", to_address(V4, 443)),
        ("https://[2001:db8::1]:8443/x", to_address(V6, 8443)),
        ("wss://a.example/socket", to_name("a.example", 443)),
        ("ssh://git@a.example/repo", to_name("a.example", 22)),
        ("postgres://user:pw@a.example/db", to_name("a.example", 5432)),
        ("redis://a.example", to_name("a.example", 6379)),
        ("unknown://a.example:9", to_name("a.example", 9)),
        ("https://bücher.example./", to_name("xn--bcher-kva.example", 443)),
    ],
)
def test_destinations(text, flow):
    assert parse_destination(text) == flow


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "/",
        ":443",
        "a.example:",
        "a.example:0",
        "a.example:65536",
        "a.example:http",
        "a.example/path",
        "a.example:443/path",
        "a.example/sctp",
        "a.example/UDP",
        "a.example/udp/",
        "a b.example",
        "a.example\n",
        "a.example\0",
        "a.example%00",
        "user@a.example",
        "*.a.example",
        "127.1",
        "0x7f000001",
        "2130706433",
        "192.0.2.1/24",
        "192.0.2.256",
        "[192.0.2.1]",
        "[a.example]",
        "[::1",
        "::1]",
        "fe80::1%eth0",
        "[fe80::1%25eth0]:80",
        "unknown://a.example",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://:443/",
        "https://a.example:0/",
        "https://127.1/",
        "https://0x7f.1/",
        "https://a@b@a.example/",
        "https://a.example\\@evil.example/",
        "https://a.example\\.evil.example/",
        "https:a.example",
        "//a.example",
        "https://a.example:443:443/",
        "https://a.exa\tmple/",
        "https://a.example /",
        "https://%61.example/",
    ],
    ids=shown,
)
def test_destinations_that_cannot_be_read(text):
    with pytest.raises(UnreadableDestinationError) as caught:
        parse_destination(text)
    assert isinstance(caught.value, BelljarError)
    assert str(caught.value).startswith(ascii(text))
    assert "a destination is host, host:port" in str(caught.value)
    assert str(caught.value).isprintable()


@unhurried
@given(
    st.text()
    | st.text(alphabet="a.:/[]@1%\\?#", max_size=20)
    | st.text(alphabet="a.:/[]@1\\", max_size=9).map("https://".__add__)
)
def test_any_text_is_a_destination_or_an_error_that_can_be_printed(text):
    try:
        flow = parse_destination(text)
    except UnreadableDestinationError as error:
        assert str(error).isprintable()
    else:
        assert (flow.name is None) == bool(flow.addresses)
        assert flow.port in range(1, 65536)


def test_an_explanation_holds_the_destination_the_flow_and_the_decision():
    policy = compiled("{mode: block-all, egress: {allowed_domains: [a.example]}}")
    explanation = explain(policy, "https://A.example/x")
    assert explanation.destination == "https://A.example/x"
    assert explanation.flow == to_name("a.example", 443)
    assert explanation.verdict == policy.decide(explanation.flow)
    assert explanation.verdict.sentence == "a.example:443 is allowed by egress.allowed_domains[0]."


def test_without_a_policy_the_explanation_says_so():
    assert explain(None, "a.example").verdict.reason == "policy_missing"


def test_a_service_without_a_port_is_meant_where_it_is():
    policy = compiled('{mode: block-all, services: {anthropic: {}, db: {address: "10.1.2.3:5432"}}}')
    for name, port in (("anthropic", 80), ("db", 5432)):
        explained = explain(policy, f"{name}.belljar.internal")
        assert (explained.flow.port, explained.verdict.allowed) == (port, True)
    assert not explain(policy, "anthropic.belljar.internal:443").verdict.allowed
